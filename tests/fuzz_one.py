"""The process in which Atheris tries one reader: ``python -m tests.fuzz_one READER LIBFUZZER_WORDS``."""

from __future__ import annotations

import logging
import sys
import warnings

import atheris

_OURS = ["clew_shared", "clew_agent", "clew_gui"]


def main() -> None:
    """Try inputs until libFuzzer ends the process."""
    with atheris.instrument_imports(include=_OURS):
        from tests.readers import READERS
    reader = READERS[sys.argv.pop(1)]
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)

    def parse(data: bytes) -> None:
        try:
            reader.parse(data)
        except reader.refuses:
            return

    atheris.Setup(sys.argv, parse)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
