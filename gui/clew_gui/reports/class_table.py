"""The hand-ins of a class as a table: who reached what, and what was altered."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from clew_gui.reports.check import HandinVerdict, copied
from clew_gui.reports.facts import ReportFacts
from clew_shared.base.harmless import csv_text, for_html


class ClassRow(msgspec.Struct, frozen=True, kw_only=True):
    """One hand-in. ``by_goal`` has for each goal of it whether it was reached and the sentence with the value;
    ``shared`` says which runs another student handed in as well."""

    file: str
    student: str
    exercises: str
    goals: str
    by_goal: dict[str, tuple[bool, str]]
    answers: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    shared: tuple[str, ...] = ()
    page_checked: bool = True

    @property
    def ok(self) -> bool:
        """Whether nothing was altered, and nothing is another student's as well."""
        return not self.problems and not self.shared

    @property
    def checked(self) -> str:
        """The verdict in words."""
        if self.problems:
            return "ALTERED"
        if self.shared:
            return "HANDED IN TWICE"
        return "as recorded" if self.page_checked else "as recorded, page not checked"


def class_rows(checked: Sequence[tuple[str, HandinVerdict]]) -> list[ClassRow]:
    """The rows in the order of the students' names. A run that two students handed in is noted for both, and need
    not be altered: they may have worked together. One under another name is: what it took betrays a copy."""
    owners: dict[str, set[str]] = {}
    for _, verdict in checked:
        for run in verdict.facts.runs if verdict.facts is not None else ():
            owners.setdefault(run.id, set()).add(verdict.facts.student if verdict.facts is not None else "")
    copies = list(_copies(checked))
    rows = [_row(name, verdict, owners, copies) for name, verdict in checked]
    return sorted(rows, key=lambda row: (row.student.casefold(), row.file))


class _Copy(NamedTuple):
    """Two runs, in two files, that took the same times."""

    files: tuple[str, str]
    runs: tuple[str, str]
    students: tuple[str, str]

    def words(self, file: str) -> str:
        """Returns the sentence in the row of one of the two files."""
        mine, other = (0, 1) if file == self.files[0] else (1, 0)
        whose = self.students[other] or "nobody"
        return (
            f"Run {self.runs[mine][:8]} took the same times, block by block, as run {self.runs[other][:8]} of {whose}"
            f" in {self.files[other]}: one is a copy of the other. Ask both."
        )


def _copies(checked: Sequence[tuple[str, HandinVerdict]]) -> Iterator[_Copy]:
    runs = [
        (file, run, verdict.facts.student if verdict.facts is not None else "", times)
        for file, verdict in checked
        for run, times in verdict.timings.items()
    ]
    alike: dict[tuple[int, int], list[tuple[str, str, str, tuple[float, ...]]]] = {}
    for mine in runs:
        length, place = _likeness(mine[3])
        for other in (one for near in (place - 1, place, place + 1) for one in alike.get((length, near), ())):
            if mine[0] != other[0] and mine[1] != other[1] and copied(mine[3], other[3]):
                yield _Copy((mine[0], other[0]), (mine[1], other[1]), (mine[2], other[2]))
        alike.setdefault((length, place), []).append(mine)


def _likeness(times: Sequence[float]) -> tuple[int, int]:
    """Runs that took the same times agree in this, or are next to each other: so that not every two are compared."""
    return len(times), round(1000 * math.log(times[0] / times[1])) if len(times) > 1 else 0


def _row(name: str, verdict: HandinVerdict, owners: dict[str, set[str]], copies: Sequence[_Copy]) -> ClassRow:
    facts = verdict.facts
    if facts is None:
        problems = tuple(map(str, verdict.problems))
        return ClassRow(
            file=name,
            student="",
            exercises="",
            goals="",
            by_goal={},
            answers="",
            problems=problems,
            notes=verdict.notes,
        )
    shared = [
        f"Run {run.id[:8]} was also handed in by {', '.join(sorted(owners[run.id] - {facts.student}))}."
        for run in facts.runs
        if owners[run.id] - {facts.student}
    ]
    betrayed = [one.words(name) for one in copies if name in one.files]
    return ClassRow(
        file=name,
        student=facts.student,
        exercises=", ".join(one.title for one in facts.exercises),
        goals=f"{sum(goal.reached for goal in facts.goals)} of {len(facts.goals)}",
        by_goal={f"{goal.exercise}: {goal.text}": (goal.reached, goal.sentence) for goal in facts.goals},
        answers=_answers(facts),
        problems=(*map(str, verdict.problems), *betrayed),
        notes=verdict.notes,
        shared=tuple(shared),
        page_checked=verdict.page_checked,
    )


def _answers(facts: ReportFacts) -> str:
    every = [answer for one in facts.exercises for answer in one.answers]
    return f"{sum(bool(answer.text) for answer in every)} of {len(every)}" if every else ""


def _goals(rows: Sequence[ClassRow]) -> list[str]:
    return list(dict.fromkeys(goal for row in rows for goal in row.by_goal))


def table_csv(rows: Sequence[ClassRow]) -> str:
    """A line for each hand-in; a column for each goal with 1, 0 or nothing."""
    goals = _goals(rows)
    heads = ["student", "file", "as_recorded", "goals", "answers", *goals, "problems", "notes"]
    return csv_text([heads, *(_csv_row(row, goals) for row in rows)])


def _csv_row(row: ClassRow, goals: Sequence[str]) -> list[object]:
    marks = [str(int(row.by_goal[goal][0])) if goal in row.by_goal else "" for goal in goals]
    words = (" ".join((*row.problems, *row.shared)), " ".join(row.notes))
    return [row.student, row.file, int(not row.problems), row.goals, row.answers, *marks, *words]


_STYLE = """body { font: 15px/1.45 Inter, system-ui, sans-serif; color: #18202B; margin: 28px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 6px 14px 6px 0; border-bottom: 1px solid #DDE2EA; }
th { color: #465162; max-width: 11em; } .ok { color: #14773F; } .bad { color: #B3261E; } .faint { color: #5F6A7A; }"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def table_html(rows: Sequence[ClassRow]) -> str:
    """The same as a page that loads nothing."""
    goals = _goals(rows)
    heads = "".join(f"<th>{for_html(head)}</th>" for head in ("Student", "Checked", "Goals", *goals, "Answers", "File"))
    body = "\n".join(_html_row(row, goals) for row in rows)
    altered, twice = sum(bool(row.problems) for row in rows), sum(not row.problems and not row.ok for row in rows)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Class</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><style>{_STYLE}</style></head><body>\n'
        f"<h1>{len(rows)} hand-ins</h1>"
        f"<p>{len(rows) - altered - twice} as recorded, {altered} altered, {twice} handed in twice.</p>\n"
        f"<table><tr>{heads}</tr>\n{body}\n</table></body></html>\n"
    )


def _html_row(row: ClassRow, goals: Sequence[str]) -> str:
    words = [f'<div class="bad">{for_html(text)}</div>' for text in (*row.problems, *row.shared)]
    words += [f'<div class="faint">{for_html(text)}</div>' for text in row.notes]
    checked = (
        f'<b class="{"ok" if row.ok else "bad"}">{"✓" if row.ok else "✗"} {row.checked.lower()}</b>{"".join(words)}'
    )
    cells = [for_html(row.student) or "–", checked, for_html(row.goals)]
    for goal in goals:
        reached, sentence = row.by_goal.get(goal, (False, ""))
        mark = ("✓" if reached else "–") if sentence else ""
        cells.append(f'<span class="{"ok" if reached else "faint"}" title="{for_html(sentence)}">{mark}</span>')
    cells += [for_html(row.answers), for_html(row.file)]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
