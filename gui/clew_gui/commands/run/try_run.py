"""``clew try``: asks the network of a trained run what an image shows."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from clew_gui.base.image_file import read_image
from clew_gui.commands.agent_program import agent_command, cards
from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.commands.find import RUN_HELP, find_run, is_copy
from clew_gui.commands.output.result import word_for
from clew_gui.commands.run.site_run import open_session, open_terminal
from clew_gui.session.links.conversation import TRY_WITHIN_S
from clew_gui.session.session import try_over
from clew_shared.base.foreign import from_json
from clew_shared.base.number_words import quantity
from clew_shared.base.problem import ProblemError, problem
from clew_shared.wire.messages import Done, Refused, Tried, TryRun
from clew_shared.wire.turns import ONE_THREAD

_LOOK_S = 0.02
_BAR = 30
_NUMBERS = 8
_ABOUT = """Ask the network of a trained run what an image shows, by the run's last checkpoint.

Without an image it gets a random test image of the run's data set. A grey image with dark strokes on light paper is
turned round, scaled and centred as the images of MNIST are. A run on a site is asked there while its job lasts."""


def try_(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew try RUN [IMAGE | --sample N]``: returns the exit status."""
    parser = Parser("clew try", _ABOUT)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("image", metavar="IMAGE", nargs="?", type=Path, help="an image file")
    which.add_argument("--sample", type=int, metavar="N", help="test image N of the data set, from 0")
    parser.add_argument("--exercises", metavar="DIR", help="add the exercises in this folder")
    parser.add_argument("--json", action="store_true", help="one line of JSON: the answer with all probabilities")
    options = parser.parse_args(list(argv))
    if options.sample is not None and options.sample < 0:
        text = f"Test images count from 0, got {options.sample}."
        raise problem("try.sample", text, "Choose another number.", "sample")
    folder = find_run(context.places, options.run)
    request = TryRun(run=folder.name, sample=random.getrandbits(31) if options.sample is None else options.sample)
    if options.image is not None:
        request = read_image(folder.name, options.image)
    ask = _ask_there if is_copy(context.places, folder) else _ask_here
    reply = ask(context, folder, request, options.exercises)
    if isinstance(reply, Refused):
        raise ProblemError(reply.problem)
    if options.json:
        context.say_json(_as_json(reply))
    else:
        _print(context, word_for(context.places, folder), reply)
    return OK


def _ask_here(context: CommandContext, folder: Path, request: TryRun, exercises: str | None) -> Tried | Refused:
    own = ("--exercises", str(Path(exercises).expanduser().absolute())) if exercises else ()
    command = agent_command(context.places, "try", str(folder), *own)
    asked = msgspec.json.encode(request) + b"\n"
    environment = {**os.environ, **ONE_THREAD}
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, timeout=TRY_WITHIN_S, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        text = f"The network did not answer within {TRY_WITHIN_S:.0f} s."
        hint = "The first time on a slow disk takes longest: try again."
        raise problem("try.silent", text, hint, "run") from None
    for line in done.stdout.splitlines():
        with suppress(msgspec.DecodeError):
            reply: Done | Tried | Refused = from_json(line, Done | Tried | Refused)
            if not isinstance(reply, Done):
                return reply
    said = "\n".join(done.stderr.decode("utf-8", "replace").strip().splitlines()[-5:])
    raise problem("try.ended", f"The process that answers has ended before it could. It said:\n{said}", "Try again.")


def _ask_there(context: CommandContext, folder: Path, request: TryRun, _: str | None) -> Tried | Refused:
    """Asks the agent of the run's job."""
    terminal = open_terminal(context)
    job = terminal.manager.book.job_of(folder.name)
    if not job or terminal.manager.book.news(job).over:
        terminal.manager.close()
        raise try_over(word_for(context.places, folder))
    with open_session(terminal, cards(context.places), (job,)) as session:
        session.recall(folder.name)
        session.try_run(msgspec.structs.replace(request, close=True))
        until = time.monotonic() + TRY_WITHIN_S
        while time.monotonic() < until:
            changes = session.tick()
            for answer in changes.tried:
                if answer.run == folder.name:
                    return answer.reply
            for found in changes.problems:
                context.report(found)
            time.sleep(_LOOK_S)
    raise problem("try.silent", "The agent of the run's job did not answer.", "See `clew jobs`.", "run")


def _as_json(tried: Tried) -> dict[str, object]:
    if tried.code:
        return {name: getattr(tried, name) for name in ("run", "step", "code", "error", "threshold", "label", "sample")}
    names = ("run", "step", "probabilities", "class_names", "label", "sample")
    return {"answer": tried.names[tried.best]} | {name: getattr(tried, name) for name in names}


def _print_code(context: CommandContext, word: str, tried: Tried) -> None:
    numbers = ", ".join(quantity(number) for number in tried.code[:_NUMBERS])
    more = f" and {len(tried.code) - _NUMBERS} more" if len(tried.code) > _NUMBERS else ""
    what = f"test image {tried.sample:,} of {tried.samples:,}" if tried.sample >= 0 else "the image"
    if tried.error is None:
        context.say(f"Run {word} after {tried.step:,} steps draws an image from the code {numbers}{more}.")
        context.say("The window shows it: Try it (F6).")
        return
    context.say(f"Run {word} after {tried.step:,} steps: {what} has the code {numbers}{more}.")
    judged = ""
    if tried.threshold is not None:
        above = tried.error > tried.threshold
        judged = f", {'above' if above else 'below'} {quantity(tried.threshold)}: {'an anomaly' if above else 'normal'}"
    context.say(f"What is drawn from it has the error {quantity(tried.error)}{judged}.")


def _print(context: CommandContext, word: str, tried: Tried) -> None:
    if tried.code:
        _print_code(context, word, tried)
        return
    names, best = tried.names, tried.best
    what = f"test image {tried.sample:,} of {tried.samples:,}" if tried.sample >= 0 else "the image"
    known = ""
    if tried.label >= 0:
        known = " That is right." if tried.label == best else f" Wrong: it is {names[tried.label]}."
    sure = quantity(tried.probabilities[best], "percent")
    context.say(f"Run {word} after {tried.step:,} steps: {what} is {names[best]}, with {sure}.{known}")
    width = max(map(len, names))
    for name, share in zip(names, tried.probabilities, strict=True):
        shown = quantity(share, "percent")
        context.say(f"  {name:>{width}} {shown:>9}  {'█' * round(_BAR * share)}".rstrip())
