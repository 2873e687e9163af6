"""Prints on terminals, and into files, that lack some characters."""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import re
import sys
import unicodedata
from functools import partial

from clew_shared.base.harmless import say

_PLAIN = {
    "–": "-",
    "—": "-",
    "−": "-",
    "…": ".",
    "×": "x",
    "≥": ">=",
    "≤": "<=",
    "±": "+-",
    "∞": "inf",
    "│": "|",
    "└": "+",
    "“": "'",
    "”": "'",
    "’": "'",
    "⁻": "-",
    "→": ">",
    "←": "<",
    "↑": "^",
    "↓": "v",
    "≈": "~",
    "·": ".",
    "•": "*",
    "÷": "/",
    "√": "sqrt",
    "µ": "u",
    "✓": "+",
    "✗": "x",
}
"""Plain characters for those that a terminal lacks. Where possible, one replaces one, so that tables and the live
picture keep their width."""
_UPPER_DOTS, _LOWER_DOTS = 0x01 | 0x02 | 0x08 | 0x10, 0x04 | 0x20 | 0x40 | 0x80
"""Bits of the upper and the lower half of a braille character, of which curves are made (Unicode block U+2800)."""
_SUPERSCRIPTS = "[⁻⁰¹²³⁴-⁹]+"


def prepare_output() -> None:
    """Makes standard output and error replace characters that they lack, rather than raise an error. Where one was
    closed, what is printed there is lost."""
    sys.stdout = sys.stdout or _Nowhere()
    sys.stderr = sys.stderr or _Nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not (stream.errors or "").startswith("clew."):
            encoding = codecs.lookup(stream.encoding).name
            codecs.register_error(f"clew.{encoding}", partial(_replace, encoding))
            # ASCII: every other character is given to the handler, which sees numbers in superscript as a whole.
            shown = None if encoding.startswith("utf") else "ascii"
            stream.reconfigure(encoding=shown, errors=f"clew.{encoding}")


class _Nowhere(io.TextIOWrapper):
    """What is written here is lost. It is no terminal, which Windows takes its null device for."""

    def __init__(self) -> None:
        super().__init__(io.BufferedWriter(io.FileIO(os.devnull, "w")), encoding="utf-8", newline="\n")

    def isatty(self) -> bool:
        """Returns False."""
        return False


def reader_has_left(error: Exception) -> bool:
    """Whether an error says that nobody reads standard output any more. Windows calls that an invalid argument."""
    if not isinstance(error, OSError) or error.errno != errno.EINVAL or error.filename is not None:
        return isinstance(error, BrokenPipeError)
    try:
        say()  # a line too many, where it was something else
    except OSError:
        return True
    return False


def ascii_json(data: bytes) -> str:
    """The JSON ``data`` in ASCII, to be printed: programs read the same from it whatever the terminal lacks."""
    return re.sub(r"[^\x00-\x7e]+", lambda found: json.dumps(found[0])[1:-1], data.decode())


def _replace(encoding: str, error: UnicodeError) -> tuple[bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = b""
    for part in re.findall(f"{_SUPERSCRIPTS}|.", error.object[error.start : error.end], re.DOTALL):
        encoded = _encoded(part, encoding)
        raised = b"^" if re.fullmatch(_SUPERSCRIPTS, part) else b""  # 10⁻¹² is not 10-12
        found += raised + b"".join(map(_plain, part)) if encoded is None else encoded
    return found, error.end


def _encoded(text: str, encoding: str) -> bytes | None:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return None


def _plain(character: str) -> bytes:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is no text: as the system gave it
        return bytes([code - 0xDC00])
    if 0x2800 <= code <= 0x28FF:
        upper, lower = code & _UPPER_DOTS, code & _LOWER_DOTS
        return b":" if upper and lower else b"'" if upper else b"." if lower else b" "
    if character in _PLAIN:
        return _PLAIN[character].encode()
    return unicodedata.normalize("NFKD", character).encode("ascii", "ignore") or b"?"
