"""Recognises a full disk, whoever says so."""

from __future__ import annotations

import errno

from clew_shared.base.problem import Problem

_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
_FULL_WORDS = ("no space left", "disk quota", "file too large")


def disk_full(error: Exception) -> str | None:
    """Returns the words for a full disk, if that is what ``error`` says; TensorFlow wraps the system's text into errors
    of its own."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return error.strerror or "the disk is full"
    text = str(error).lower()
    return next((words for words in _FULL_WORDS if words in text), None)


def no_room(error: Exception) -> Problem | None:
    """Returns what a command says when the disk below its output is full; None for any other error."""
    full = disk_full(error) if isinstance(error, OSError) else None
    text = f"What it prints or writes is not complete: {full}."
    return Problem("cli.space", text, "Make room, and give the command again.") if full else None
