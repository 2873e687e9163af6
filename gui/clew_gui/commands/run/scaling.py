"""``clew scaling``: the same training on 1, 2, 4 devices, one after the other, and how much faster more of them are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clew_gui.commands.agent_program import cards
from clew_gui.commands.context import CommandContext, Parser
from clew_gui.commands.run.arguments import exercises_folder, not_taken, parse_run, whole
from clew_gui.commands.run.check import check_study_here
from clew_gui.commands.run.study import run_study, save_study
from clew_shared.base.problem import Problem, problem, raise_all
from clew_shared.cards import ExerciseCard
from clew_shared.params import STEPS
from clew_shared.study.study import check_study, scaling_study, usual_warm_up

_DESCRIPTION = """Time an exercise on several numbers of devices: images/s after the warm-up, speed-up, efficiency.

Strong scaling (the default) divides the same batch among more devices; --weak gives every device a whole batch. Every
option of `clew run EXERCISE` that is about all runs can be given as well: --data, --steps, --batch-size and so on.
Without GPUs the devices are logical ones of the processor: they show how it is done and make nothing faster.

With --site one job does all its runs, one after the other. --save FILE writes the study first; after Ctrl+C
`clew study FILE` continues it.

The exit status is 0 when every run finished, 1 when one failed, 2 when something asked for is wrong (then nothing was
started) and 130 when it was stopped."""
_NOT_HERE = ("out", "name", "queue")
_DEVICES = "1,2,4"


def scaling(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew scaling EXERCISE …``: returns the exit status."""
    parser = Parser("clew scaling", _DESCRIPTION, usage="clew scaling EXERCISE [--devices 1,2,4] [options]")
    parser.add_argument("--devices", metavar="N,N", help=f"numbers of devices (default {_DEVICES}), or one for --nodes")
    parser.add_argument("--nodes", metavar="N,N", help="numbers of nodes, or of processes on this computer")
    parser.add_argument("--repeats", metavar="N", default="1", help="how often each is measured (default 1)")
    parser.add_argument("--warm-up", metavar="N", help="steps that do not count (default 20, at most a quarter)")
    parser.add_argument("--weak", action="store_true", help="weak scaling: the batch grows with the devices")
    parser.add_argument("--save", metavar="FILE", help="write the study as TOML as well, to continue or share it")
    options, rest = parser.parse_known_args(list(argv))
    known = cards(context.places, exercises_folder(rest))
    axis, counts, fixed = _axis(options.devices, options.nodes)
    devices, nodes = (max(counts), fixed) if axis == "devices" else (fixed, max(counts))
    spread = ["--devices", str(devices), *(["--nodes", str(nodes)] if nodes > 1 else [])]
    request, card, spec = parse_run([*rest, *spread], known, "")
    wrong = not_taken("scaling", request, _NOT_HERE)
    if request.detach and not options.save:
        text = "Without its file nobody can come back to a study that was left alone."
        wrong.append(Problem("cli.scaling", text, "Add --save FILE.", "save"))
    raise_all(wrong)
    asked = options.warm_up
    study = scaling_study(
        spec,
        counts,
        axis=axis,
        repeats=whole("repeats", options.repeats, "3"),
        warm_up=usual_warm_up(spec.params.get(STEPS)) if asked is None else whole("warm-up", asked, "3"),
        weak=options.weak,
        title=_title(card, options.weak),
    )
    raise_all(check_study(study, card))
    check_study_here(context.places, study, request.site, own=request.exercises is not None)
    if options.save:
        save_study(Path(options.save).expanduser(), study)
    return run_study(context, study, card, known, request)


def _axis(devices: str | None, nodes: str | None) -> tuple[str, list[int], int]:
    """Returns which of the two numbers changes from run to run, its values, and the number of the other one."""
    of_devices = _counts("devices", devices or ("1" if nodes else _DEVICES))
    of_nodes = _counts("nodes", nodes or "1")
    if len(of_devices) > 1 and len(of_nodes) > 1:
        text = "A study has one axis, and both --devices and --nodes list several numbers."
        raise problem("cli.scaling", text, "Give one number for one of them.", "nodes")
    if len(of_devices) == 1 and nodes:
        return "nodes", of_nodes, of_devices[0]
    return "devices", of_devices, of_nodes[0]


def _counts(name: str, text: str) -> list[int]:
    counts = [whole(name, word, _DEVICES) for word in text.split(",") if word.strip()]
    if not counts or min(counts) < 1:
        raise problem("cli.scaling", f"--{name} takes whole numbers from 1 on, got {text!r}.", f"Write --{name} 1,2,4.")
    return counts


def _title(card: ExerciseCard, weak: bool) -> str:
    return f"{card.title}, {'weak' if weak else 'strong'} scaling"
