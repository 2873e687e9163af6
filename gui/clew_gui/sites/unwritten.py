"""Explains why a folder on a site cannot be written, in a sentence that names it, with what to do."""

from __future__ import annotations

import re

from clew_shared.base.problem import Problem


def unwritten(folder: str, said: str, title: str = "") -> Problem:
    """Explains the problem from what the system ``said``; ``title`` is the site's, if that is not clear."""
    where = f"{folder} on {title}" if title else folder
    if re.search("quota", said, re.IGNORECASE):
        text = f"Your disk quota is used up: nothing more can be written to {where}."
        return Problem(
            "site.quota", text, "Delete something (quota -s shows how much), or name scratch in the site.", folder
        )
    if re.search("no space left", said, re.IGNORECASE):
        text = f"The disk is full: not a byte can be written to {where}."
        hint = "Make room there (du -sh ~/* shows what is big), or name scratch in the site."
        return Problem("site.full", text, hint, folder)
    if re.search("read-only", said, re.IGNORECASE):
        text = f"{where} lies on a file system that is read-only here."
        return Problem("site.folder", text, "Name a folder that can be written as scratch in the site.", folder)
    last = next(reversed([line.strip() for line in said.splitlines() if line.strip()]), "the site does not say why")
    text = f"{where} cannot be written: {last.rstrip('.')}."
    return Problem("site.folder", text, "Name one of your folders as scratch in the site.", folder)
