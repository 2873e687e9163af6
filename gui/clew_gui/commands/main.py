"""The ``clew`` command: finds the command's module, and reports all problems in one message with exit status 2."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import NamedTuple

from clew_gui.commands.context import BAD_INPUT, FAILED, INTERRUPTED, OK, CommandContext, complain, standard_context
from clew_shared import __version__
from clew_shared.base.disk_full import no_room
from clew_shared.base.foreign import readable
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError, did_you_mean, long_names_refused, problem
from clew_shared.base.terminal import prepare_output, reader_has_left


class Command(NamedTuple):
    """One command: its group in the help, its name, what it does, and the module with its function of the same name."""

    group: str
    name: str
    about: str
    module: str


COMMANDS = (
    Command("Begin", "start", "open the window; without a display run an exercise and write a picture", "start"),
    Command(
        "Begin", "desktop-entry", "put Clew into the start menu, the dock or the desktop's programs", "desktop_entry"
    ),
    Command("Begin", "doctor", "check what Clew needs on this computer, and say how to fix problems", "sites.doctor"),
    Command("Begin", "why", "explain a message by the code at its end", "why"),
    Command("Begin", "setup-tensorflow", "install TensorFlow for runs on this computer", "setup_tensorflow"),
    Command("Begin", "completion", "print what completes commands with Tab in bash, zsh or fish", "completion"),
    Command("Begin", "catalogue", "list the exercises, their presets and hyperparameters", "catalogue"),
    Command("Begin", "code", "write an exercise's code: its file, with Keras, a job script", "code"),
    Command("Begin", "course", "open a teacher's course; make, check, list, pack and leave courses", "course"),
    Command("Train", "run", "run an exercise on this computer and follow it here", "run.run"),
    Command("Train", "race", "race optimizers from the same start", "run.studies"),
    Command("Train", "scaling", "time an exercise on 1, 2, 4 devices, and say what they gain", "run.studies"),
    Command("Train", "sweep", "try many values: a grid, random ones, or what a sampler proposes", "run.studies"),
    Command("Train", "study", "do the runs of a study, or those that are left of it", "run.studies"),
    Command("Train", "resume", "continue an ended run from its last checkpoint", "run.run"),
    Command("Train", "queue", "show which runs wait and which are training, move a run, take it out", "run.queue"),
    Command(
        "Sites", "site", "add, list, show, change, examine and remove the machines that runs can go to", "sites.site"
    ),
    Command("Sites", "hold", "keep an allocation for many runs", "jobs.hold"),
    Command("Sites", "let-go", "give back an allocation that is held", "jobs.hold"),
    Command("Sites", "shell", "a terminal on an allocation", "jobs.node_shell"),
    Command("Sites", "open", "Jupyter on an allocation, or TensorBoard here, in the browser", "jobs.open"),
    Command("Sites", "jobs", "list the jobs that were sent to sites", "jobs.jobs"),
    Command("Sites", "attach", "come back to a run on a site", "jobs.jobs"),
    Command("Sites", "cancel", "end a job on a site, or take it out of its queue", "jobs.jobs"),
    Command("Sites", "fetch", "copy a run that was made on a site without this computer", "run.fetch"),
    Command("Sites", "logout", "end the logins to sites that stay for a while, or show them", "sites.logout"),
    Command("Look back", "runs", "list the runs that are kept on this computer", "runs"),
    Command("Look back", "show", "show one run: settings, curves, goals, files", "runs"),
    Command("Look back", "compare", "show how runs differ in settings and results", "compare"),
    Command("Look back", "note", "give a run a name, a note and tags", "compare"),
    Command("Look back", "try", "ask a trained run what an image shows", "run.try_run"),
    Command("Look back", "replay", "play a run that has ended in the window", "start"),
    Command("Hand in", "report", "write a report of runs as one HTML page or as PDF", "reports.report"),
    Command("Hand in", "answer", "answer the questions of a guide; the answers go into reports", "reports.report"),
    Command("Hand in", "hand-in", "pack report and journals into one file for the teacher", "reports.report"),
    Command("Hand in", "verify-handin", "check a hand-in, and repeat its first steps", "reports.verify_handin"),
    Command(
        "Hand in", "class", "check all hand-ins of a folder and make the table of the class", "reports.verify_handin"
    ),
    Command("Keep and check", "verify", "check every byte of a run against its journal", "verify_export"),
    Command(
        "Keep and check", "export", "write a run as files for TensorBoard, MLflow, pandas and others", "verify_export"
    ),
)

_EXAMPLES = """Examples:
  clew run softmax                          the course's values, live in the terminal
  clew run softmax --learning-rate 0.1      one hyperparameter changed
  clew run cnn --preset tiny                a small run that needs no data
  clew show last                            the run that was started last
  clew export last --csv out                its points as a table"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in ``argv`` (default: the process's own) and return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    prepare_output()
    context = standard_context(find_places())
    name = words[0] if words else "--help"
    return _guarded(context, name, words[1:])


def window() -> int:
    """``clew-window``, the program behind an icon: as ``clew start``. Returns the exit status.

    Without a console it has no standard output: what it would print there is kept in ``window.log``.
    """
    if sys.stderr is None:
        home = find_places().home
        home.mkdir(parents=True, exist_ok=True)
        sys.stdout = sys.stderr = (home / "window.log").open("a", encoding="utf-8", newline="\n", buffering=1)
    return main(["start", *sys.argv[1:]])


def _guarded(context: CommandContext, name: str, words: Sequence[str]) -> int:
    """Run one command; a refusal becomes a message, ``--help`` a normal end, a closed pipe and Ctrl+C no traceback."""
    try:
        if name in ("--help", "-h", "help"):
            return _help(context, words[:1])
        if name in ("--version", "version"):
            context.say(f"clew {__version__}")
            return OK
        with long_names_refused():
            return command_function(name)(context, words)
    except ProblemError as error:
        complain(context, f"clew {name}", error.problems, as_json="--json" in words)
        return BAD_INPUT
    except UnicodeEncodeError as error:  # what is kept or sent is text; an argument may be any bytes
        shown = next((word for word in words if readable(word) != word), str(error.object)[error.start : error.end])
        text = f"{readable(shown)[:80]!r} is no text: it has bytes that are no UTF-8 (shown as %FF)."
        complain(
            context,
            f"clew {name}",
            [Problem("cli.text", text, "Type it again in a UTF-8 terminal.")],
            "--json" in words,
        )
        return BAD_INPUT
    except SystemExit as end:  # argparse after --help
        return end.code if isinstance(end.code, int) else OK
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  # the process border
        if reader_has_left(error):
            sys.stdout = None  # nothing more can be written there
            return FAILED
        if full := no_room(error):
            complain(context, f"clew {name}", [full])
            return FAILED
        context.note(f"clew {name}: an unexpected error, {type(error).__name__}: {error}. {context.keep_trace()}")
        return FAILED


def command_function(name: str) -> Callable[[CommandContext, Sequence[str]], int]:
    """Returns what does this command; its module is imported. Raises ``ProblemError`` if there is no such command."""
    for command in COMMANDS:
        if command.name == name:
            function: Callable[[CommandContext, Sequence[str]], int] = getattr(
                import_module(f"clew_gui.commands.{command.module}"), name.replace("-", "_") + "_" * iskeyword(name)
            )
            return function
    hint = did_you_mean(name, [command.name for command in COMMANDS]) or "See: clew --help"
    raise problem("cli.command", f"There is no command {name!r}.", hint, where=name)


def _help(context: CommandContext, words: Sequence[str]) -> int:
    if words:
        return _guarded(context, words[0], ["--help"])
    context.say("Clew: guided deep-learning laboratories. Pick an exercise, run it, and watch it converge.\n")
    context.say("usage: clew COMMAND [options]      (clew COMMAND --help shows a command's options)")
    group = ""
    for command in COMMANDS:
        if command.group != group:
            group = command.group
            context.say(f"\n{group}:")
        context.say(f"  {command.name:<17}{command.about}")
    context.say(f"\n{_EXAMPLES}\n\nclew --version shows the version; runs are kept in {context.places.runs}")
    return OK
