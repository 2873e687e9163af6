"""The questions of a guide and what a student answers. The answers of an exercise are a file of the lab, because they
are about all its runs; a hand-in takes a copy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import tomli_w

from clew_shared.base.foreign import from_toml, read_file
from clew_shared.base.places import Places
from clew_shared.base.private_files import write_private
from clew_shared.base.problem import ProblemError, problem
from clew_shared.goal_settings import questions

MAX_ANSWER = 20_000
"""Characters of one answer, about six pages."""
_MAX_BYTES = 4 << 20


class GuideAnswer(msgspec.Struct, frozen=True):
    """A question in the words of the guide, and what the student wrote; empty: nothing yet."""

    question: str
    text: str = ""


class _AnswersFile(msgspec.Struct):
    answers: tuple[GuideAnswer, ...] = ()


def answers_path(places: Places, exercise: str) -> Path:
    """The file with the answers to the questions of an exercise."""
    return places.home / "answers" / f"{re.sub(r'[^A-Za-z0-9._-]', '_', exercise)}.toml"


def read_answers(places: Places, exercise: str) -> dict[str, str]:
    """The answers so far, by question. Raises ``ProblemError`` when the file is damaged."""
    path = answers_path(places, exercise)
    if not path.exists():
        return {}
    try:
        found = msgspec.convert(from_toml(read_file(path, _MAX_BYTES).decode()), _AnswersFile)
    except ValueError as error:  # broken TOML, bytes that are no text, fields of another type
        text = f"The answers in {path} cannot be read: {error}."
        raise problem("answers.read", text, "Fix the file, or move it away to begin again.", str(path)) from None
    return {answer.question: answer.text for answer in found.answers}


def kept_answers(places: Places, exercise: str) -> dict[str, str]:
    """The answers so far, for everyone who can do without them: none if they cannot be read."""
    try:
        return read_answers(places, exercise)
    except ProblemError:
        return {}


def keep_answer(places: Places, exercise: str, question: str, text: str) -> None:
    """Write one answer beside the others; an empty one removes it. Raises ``ProblemError`` when it is too long or
    cannot be written."""
    if len(text) > MAX_ANSWER:
        words = f"An answer may have {MAX_ANSWER:,} characters, this one has {len(text):,}."
        raise problem("answers.long", words, "Shorten it.", question)
    known = read_answers(places, exercise) | {question: text}
    path = answers_path(places, exercise)
    content = {"answers": [{"question": asked, "text": found} for asked, found in known.items() if found.strip()]}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, tomli_w.dumps(content, multiline_strings=True).encode())
    except OSError as error:
        text = f"The answer cannot be saved in {path}: {error.strerror or error}."
        raise problem("answers.write", text, "Free some space, or check the folder.", str(path)) from None


def answered(guide: str, known: Mapping[str, str]) -> tuple[GuideAnswer, ...]:
    """The guide's questions with their answers, and after them answers to questions that it no longer asks."""
    asked = questions(guide)
    others = (question for question in known if question not in asked)
    return tuple(GuideAnswer(question, known.get(question, "")) for question in (*asked, *others))
