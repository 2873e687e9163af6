"""``make fuzz``: inputs that a fuzzer makes, guided by coverage, for every reader of bytes from elsewhere.

``python -m tests.fuzz --runs 1000000 [READER ...]``. Each reader of tests/readers.py has a process of its own, in which
Atheris (libFuzzer for Python) watches which lines of Clew an input reaches, and changes those that reach new ones. What
a reader raises beside its own refusals, an endless loop and much memory end that process; the input is printed, and
belongs into the reader's samples once the reader is mended. ``--keep`` puts some of the inputs that reached something
new into tests/corpus, where the test of hostile bytes reads them each time.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench.__main__ import today, updated
from tests.bench.measure import table

CORPUS = Path(__file__).parent / "corpus"
KEPT = 24
"""Inputs of a reader in tests/corpus at most."""
KEPT_BYTES = 400
_PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
_LONGEST = 2048
"""Number of bytes in an input: more of them reach little that is new, and a run of a million takes longer."""
_PATIENCE_S, _MEMORY_MB = 20, 2048
"""One input may take so long, and the process so much: it holds TensorFlow's readers and their coverage."""


def main(argv: Sequence[str]) -> int:
    """Returns 1 if a reader crashed, else 0."""
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--runs", type=int, default=1_000_000, help="inputs for each reader")
    parser.add_argument("--minutes", type=float, default=0.0, help="end a reader after so many minutes")
    parser.add_argument("--keep", action="store_true", help="renew tests/corpus")
    parser.add_argument("--write", action="store_true", help="put their sum into docs/reliability.md")
    parser.add_argument("readers", nargs="*")
    options = parser.parse_args(argv)
    from tests.readers import READERS

    rows, crashes, total = [], [], 0
    for name in options.readers or READERS:
        with tempfile.TemporaryDirectory(prefix="clew-fuzz-") as folder:
            found = fuzz(name, Path(folder), options.runs, options.minutes)
            print(f"{name}: {found.inputs:,} inputs in {found.seconds:.0f} s {found.said}", flush=True)
            total += found.inputs
            rows.append((name, f"{found.inputs:,}", found.reached, "crashed" if found.failed else "none"))
            if found.failed:
                crashes.append(f"{name}: {found.crash!r}")
            elif options.keep:
                keep(name, Path(folder))
    print("\n".join([table(("reader", "inputs", "places reached", "crashes"), rows), *crashes]))
    if options.write:
        what = f"{today()}: {total:,} inputs of {len(rows)} readers; {len(crashes) or 'none'} crashed."
        _PAGE.write_text(updated(_PAGE.read_text(encoding="utf-8"), "fuzz", what), encoding="utf-8")
    return bool(crashes)


class Fuzzed(NamedTuple):
    """What came of one reader: ``reached`` places in the code (edges of its coverage), and if it ``failed`` what was
    said and the input."""

    inputs: int
    seconds: float
    reached: str
    failed: bool
    said: str
    crash: bytes


def fuzz(name: str, folder: Path, runs: int, minutes: float) -> Fuzzed:
    """Try ``runs`` inputs of one reader, of which those that reach something new stay in ``folder``."""
    from tests.readers import READERS, TRAPS

    for number, sample in enumerate((*READERS[name].samples, *kept(name))):
        (folder / f"sample-{number}").write_bytes(sample)
    dictionary = folder.with_suffix(".dict")
    traps = ("".join(f"\\x{byte:02x}" for byte in trap[:60]) for trap in TRAPS)
    dictionary.write_text("".join(f'"{trap}"\n' for trap in traps))
    crash = folder.with_suffix(".crash")
    words = [f"-runs={runs}", f"-max_len={_LONGEST}", f"-timeout={_PATIENCE_S}", f"-rss_limit_mb={_MEMORY_MB}"]
    words += [f"-dict={dictionary}", f"-exact_artifact_path={crash}", "-print_final_stats=1", "-verbosity=1"]
    words += [f"-max_total_time={int(60 * minutes)}"] if minutes else []
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz_one", name, *words, str(folder)], capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - begin
    tried = re.findall(r"number_of_executed_units: *([0-9]+)", done.stderr)
    reached = re.findall(r"cov: ([0-9]+)", done.stderr)
    count, failed = int(tried[-1]) if tried else 0, crash.exists() or done.returncode != 0
    said = re.search(r"(?s)=== Uncaught Python exception: ===\n(.*?)\n==|(ERROR: libFuzzer: .*?)\n", done.stderr)
    words_said = "" if not failed else " ".join((said[0] if said else done.stderr[-500:]).split())
    data = crash.read_bytes() if crash.exists() else b""
    crash.unlink(missing_ok=True)
    dictionary.unlink()
    return Fuzzed(count, seconds, reached[-1] if reached else "?", failed, words_said, data)


def kept(name: str) -> tuple[bytes, ...]:
    """The inputs of one reader in tests/corpus."""
    path = _file(name)
    return tuple(map(base64.b64decode, json.loads(path.read_text(encoding="ascii")))) if path.exists() else ()


def keep(name: str, folder: Path) -> None:
    """Put some of what ``folder`` holds into tests/corpus: a choice of all sizes among the smallest ones that together
    reach everything that was reached."""
    with tempfile.TemporaryDirectory(prefix="clew-fuzz-") as merged:
        words = ["-merge=1", f"-max_len={KEPT_BYTES}", merged, str(folder)]
        subprocess.run([sys.executable, "-m", "tests.fuzz_one", name, *words], capture_output=True, check=True)
        found = sorted((path.read_bytes() for path in Path(merged).iterdir()), key=lambda data: (len(data), data))
    step = max(1, -(-len(found) // KEPT))
    texts = [base64.b64encode(data).decode("ascii") for data in found[::step]]
    CORPUS.mkdir(exist_ok=True)
    _file(name).write_text(json.dumps(texts, indent=0) + "\n", encoding="ascii")


def _file(name: str) -> Path:
    return CORPUS / f"{re.sub('[^a-z0-9]+', '-', name.lower())}.json"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
