"""The hand-ins of a class as a table: who reached what, and what was altered."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

import msgspec

from clew_gui.reports.check import HandinVerdict, Origin
from clew_gui.reports.facts import GoalFact, ReportFacts
from clew_shared.base.harmless import csv_text, for_html


class ClassRow(msgspec.Struct, frozen=True, kw_only=True):
    """One hand-in. ``by_goal`` has the mark of each goal (``mark_of``) and the sentence with the value; ``shared`` says
    which runs another student handed in as well, ``processes`` which were recorded by the same process as another's."""

    file: str
    student: str
    exercises: str
    goals: str
    by_goal: dict[str, tuple[str, str]]
    answers: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    shared: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    page_checked: bool = True
    unknown: bool = False
    """Whether it could not be checked."""

    @property
    def ok(self) -> bool:
        """Whether nothing was altered, and nothing is another student's as well."""
        return not self.problems and not self.shared and not self.processes

    @property
    def checked(self) -> str:
        """The verdict in words."""
        if self.problems:
            return "NOT CHECKED" if self.unknown else "ALTERED"
        if self.shared:
            return "HANDED IN TWICE"
        if self.processes:
            return "SAME PROCESS"
        return "as recorded" if self.page_checked else "as recorded, page not checked"


def class_rows(checked: Sequence[tuple[str, HandinVerdict]]) -> list[ClassRow]:
    """The rows in the order of the students' names. A run that two students handed in is noted for both, and need
    not be altered: they may have worked together. One under another name is: what it took betrays a copy."""
    owners: dict[str, set[str]] = {}
    for _, verdict in checked:
        for run in verdict.facts.runs if verdict.facts is not None else ():
            owners.setdefault(run.id, set()).add(verdict.facts.student if verdict.facts is not None else "")
    alike = _alike(checked)
    rows = [_row(name, verdict, owners, alike[name]) for name, verdict in checked]
    return sorted(rows, key=lambda row: (row.student.casefold(), row.file))


class _Run(NamedTuple):
    """A run of a hand-in."""

    file: str
    student: str
    id: str
    origin: Origin

    def is_other(self, other: _Run) -> bool:
        """Whether it is called otherwise and is in another file."""
        return self.file != other.file and self.id != other.id


class _Alike(NamedTuple):
    """What runs of a hand-in have in common with others, in sentences: copies, and runs of the same process."""

    copies: list[str]
    processes: list[str]


def _alike(checked: Sequence[tuple[str, HandinVerdict]]) -> dict[str, _Alike]:
    """By file; each run is compared only with those that have a time or a process of its own."""
    found = {file: _Alike([], []) for file, _ in checked}
    holders: dict[object, list[_Run]] = {}
    for file, verdict in checked:
        student = verdict.facts.student if verdict.facts is not None else ""
        for run in (_Run(file, student, *one) for one in verdict.origins.items()):
            marks = [mark for marks in run.origin for mark in marks]
            others = [other for mark in marks for other in holders.get(mark, ()) if run.is_other(other)]
            for other in {(other.file, other.id): other for other in others}.values():
                for one, two in ((run, other), (other, run)):
                    where = f"run {two.id[:8]} of {two.student or 'nobody'} in {two.file}"
                    if run.origin.copies(other.origin):
                        words = f"Run {one.id[:8]} took the same times, block by block, as {where}"
                        found[one.file].copies.append(f"{words}: one is a copy of the other. Ask both.")
                    for process in sorted(run.origin.process & other.origin.process):
                        words = f"Run {one.id[:8]} was recorded by the same process as {where} ({process})"
                        found[one.file].processes.append(f"{words}. Ask both, unless they used containers.")
            for mark in marks:
                holders.setdefault(mark, []).append(run)
    return found


def _row(name: str, verdict: HandinVerdict, owners: dict[str, set[str]], alike: _Alike) -> ClassRow:
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
            unknown=verdict.unknown,
        )
    shared = [
        f"Run {run.id[:8]} was also handed in by {', '.join(sorted(owners[run.id] - {facts.student}))}."
        for run in facts.runs
        if owners[run.id] - {facts.student}
    ]
    return ClassRow(
        file=name,
        student=facts.student,
        exercises=", ".join(one.title for one in facts.exercises),
        goals=_goals_words(facts, verdict.unconfirmed),
        by_goal={
            f"{goal.exercise}: {goal.text}": (mark_of(goal, verdict.unconfirmed), goal.sentence) for goal in facts.goals
        },
        answers=_answers(facts),
        problems=(*map(str, verdict.problems), *alike.copies),
        notes=verdict.notes,
        shared=tuple(shared),
        processes=tuple(alike.processes),
        page_checked=verdict.page_checked,
        unknown=verdict.unknown and not alike.copies,
    )


def mark_of(goal: GoalFact, unconfirmed: Container[tuple[str, str]]) -> str:
    """``x`` for a goal that was reached, ``?`` for one that no value reaches which came out here, else a blank."""
    return " " if not goal.reached else "?" if (goal.exercise, goal.id) in unconfirmed else "x"


def _goals_words(facts: ReportFacts, unconfirmed: Container[tuple[str, str]]) -> str:
    marks = [mark_of(goal, unconfirmed) for goal in facts.goals]
    more = f", {marks.count('?')} not confirmed" if "?" in marks else ""
    return f"{marks.count('x')} of {len(marks)}{more}"


def _answers(facts: ReportFacts) -> str:
    every = [answer for one in facts.exercises for answer in one.answers]
    return f"{sum(bool(answer.text) for answer in every)} of {len(every)}" if every else ""


def _goals(rows: Sequence[ClassRow]) -> list[str]:
    return list(dict.fromkeys(goal for row in rows for goal in row.by_goal))


def table_csv(rows: Sequence[ClassRow]) -> str:
    """A line for each hand-in; a column for each goal with 1, 0, ? (not confirmed) or nothing; ``as_recorded`` is empty
    where that was not checked."""
    goals = _goals(rows)
    heads = ["student", "file", "as_recorded", "goals", "answers", *goals, "problems", "notes"]
    return csv_text([heads, *(_csv_row(row, goals) for row in rows)])


def _csv_row(row: ClassRow, goals: Sequence[str]) -> list[object]:
    words = {"x": "1", " ": "0", "?": "?"}
    marks = [words[row.by_goal[goal][0]] if goal in row.by_goal else "" for goal in goals]
    said = (" ".join((*row.problems, *row.shared, *row.processes)), " ".join(row.notes))
    return [row.student, row.file, "" if row.unknown else int(not row.problems), row.goals, row.answers, *marks, *said]


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
    altered, unknown = (sum(row.checked == word for row in rows) for word in ("ALTERED", "NOT CHECKED"))
    twice = sum(not row.problems and not row.ok for row in rows)
    kept = len(rows) - altered - unknown - twice
    unknown_words = f", {unknown} not checked" if unknown else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Class</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><style>{_STYLE}</style></head><body>\n'
        f"<h1>{len(rows)} hand-ins</h1>"
        f"<p>{kept} as recorded, {altered} altered, {twice} handed in twice{unknown_words}.</p>\n"
        f"<table><tr>{heads}</tr>\n{body}\n</table></body></html>\n"
    )


def _html_row(row: ClassRow, goals: Sequence[str]) -> str:
    words = [f'<div class="bad">{for_html(text)}</div>' for text in (*row.problems, *row.shared, *row.processes)]
    words += [f'<div class="faint">{for_html(text)}</div>' for text in row.notes]
    checked = (
        f'<b class="{"ok" if row.ok else "bad"}">{"✓" if row.ok else "✗"} {row.checked.lower()}</b>{"".join(words)}'
    )
    cells = [for_html(row.student) or "–", checked, for_html(row.goals)]
    for goal in goals:
        mark, sentence = row.by_goal.get(goal, ("", ""))
        sign = {"x": "✓", " ": "–"}.get(mark, mark)
        cells.append(f'<span class="{"ok" if mark == "x" else "faint"}" title="{for_html(sentence)}">{sign}</span>')
    cells += [for_html(row.answers), for_html(row.file)]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
