"""``clew verify`` and ``clew export``: is every byte as it was written, and how a run leaves as open files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from clew_gui.commands.context import FAILED, OK, CommandContext, Parser
from clew_gui.commands.find import RUN_HELP, KeptJobs, find_run, is_copy, trains_here
from clew_shared.base.problem import Problem, ProblemError, raise_all
from clew_shared.exporters.chrome import export_trace
from clew_shared.exporters.mlflow import export_mlflow
from clew_shared.exporters.parquet import export_parquet, export_series_parquet
from clew_shared.exporters.tables import (
    export_csv,
    export_jsonl,
    export_pulse_csv,
    export_pulse_jsonl,
    export_series_csv,
    export_series_jsonl,
    export_updates_csv,
    export_updates_jsonl,
    export_wandb,
)
from clew_shared.exporters.tensorboard import export_tensorboard
from clew_shared.journal.history import History
from clew_shared.journal.verify import Fault, verify_run
from clew_shared.reading import read_run


def verify(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew verify RUN``: 0 when everything is as it was written, else 1 with file and offset of each difference."""
    parser = Parser(
        "clew verify",
        "Check every byte of a run: the journal's frames and digests, and every file whose hash is in it.\n"
        "The exit status is 0 when all is well and 1 when anything differs.",
    )
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--json", action="store_true", help="one line of JSON with all findings")
    options = parser.parse_args(list(argv))
    folder = find_run(context.places, options.run)
    copy = is_copy(context.places, folder)
    trains = KeptJobs(context.places).is_at_work(folder) if copy else trains_here(folder)
    report = verify_run(folder, journals_only=copy, trains=trains)
    what = f"Every byte of the journals in {folder}" if copy else f"All of {folder}"
    if options.json:
        context.say_json({"run_dir": str(folder), "ok": report.ok, "trains": trains, "findings": report.findings})
    else:
        for finding in report.findings:
            context.say(as_sentence(finding))
        context.say(f"{what} is as it was written." if report.ok else f"{folder} is not as it was written.")
        if trains:
            context.say("It still trains; it was checked up to here. Check it again when it has ended.")
        if copy:
            context.say("It is the copy of a run that was made elsewhere; its checkpoints and other files are there.")
    return OK if report.ok else FAILED


def as_sentence(finding: Fault) -> str:
    """``journal.0001, offset 4711: bytes …``: the file, the first differing byte or block, and what is wrong."""
    offset = "" if finding.offset is None else f", offset {finding.offset}"
    return f"{finding.file}{offset}: {finding.text}"


class Format(NamedTuple):
    """A form in which a run can leave: the option's name, what it says in the help, who writes its curves, and who
    writes the rest, where there is any: what it measured, what parameter servers took, and what the machines did."""

    name: str
    about: str
    write: Callable[[History, Path], Path]
    write_more: tuple[Callable[[History, Path], Path | None], ...] = ()


FORMATS = (
    Format(
        "csv",
        "a table with the columns run, step, metric, value and wall_time",
        export_csv,
        (export_series_csv, export_updates_csv, export_pulse_csv),
    ),
    Format(
        "jsonl",
        "the same, one JSON object a line",
        export_jsonl,
        (export_series_jsonl, export_updates_jsonl, export_pulse_jsonl),
    ),
    Format(
        "tensorboard",
        "an event file for TensorBoard, which has numbers of 32 bits, with the settings for HParams",
        export_tensorboard,
    ),
    Format("parquet", "a Parquet file (needs the package pyarrow)", export_parquet, (export_series_parquet,)),
    Format("mlflow", "MLflow's database: mlflow ui --backend-store-uri sqlite:///DIR/mlflow.db", export_mlflow),
    Format("trace", "the timeline of traced steps, for Perfetto or chrome://tracing", export_trace),
    Format("wandb", "a table with a column for each metric, as Weights & Biases writes it", export_wandb),
)


def export(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew export RUN --csv DIR …``: every point of a run as open files; says which files it wrote."""
    parser = Parser("clew export", "Write every point of a run, never a sample of them, as open files.")
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    for form in FORMATS:
        parser.add_argument(f"--{form.name}", metavar="DIR", help=form.about)
    options = parser.parse_args(list(argv))
    chosen = [(form, Path(folder).expanduser()) for form in FORMATS if (folder := getattr(options, form.name))]
    problems = [found for _, out in chosen for found in _unusable(out)]
    if not chosen:
        flags = " or ".join(f"--{form.name} DIR" for form in FORMATS)
        problems.append(Problem("cli.format", "Choose a format.", f"Give {flags}."))
    try:
        folder = find_run(context.places, options.run)
    except ProblemError as error:
        problems += error.problems
    raise_all(problems)
    history = read_run(folder)
    for form, out in chosen:
        context.say(str(form.write(history, out)))
        for path in filter(None, (write(history, out) for write in form.write_more)):
            context.say(str(path))
    if history.damages:
        text = f"damaged parts of the journals were left out ({len(history.damages)})"
        context.note(f"clew export: {text}. To see what is damaged: clew verify {options.run}")
        return FAILED
    return OK


def _unusable(out: Path) -> list[Problem]:
    if not out.exists() or out.is_dir():
        return []
    return [Problem("cli.out", f"{out} is a file, not a folder.", "Name a folder.", str(out))]
