"""``clew catalogue``: which exercises there are, and the settings of each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from clew_gui.commands.agent_program import cards
from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.commands.run.arguments import about
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.catalogue import find_card
from clew_shared.goal_settings import goal_detail
from clew_shared.params import format_value


def catalogue(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew catalogue [EXERCISE]``: all exercises, or one with its presets, hyperparameters and goals."""
    parser = Parser("clew catalogue", "List the exercises, or show the settings of one of them.")
    parser.add_argument("exercise", metavar="EXERCISE", nargs="?", help="show this one with its hyperparameters")
    parser.add_argument("--exercises", metavar="DIR", help="add your own exercises, the files in this folder")
    parser.add_argument("--json", action="store_true", help="the cards as one line of JSON")
    options = parser.parse_args(list(argv))
    known = cards(context.places, options.exercises, [options.exercise] if options.exercise else ())
    chosen = find_card(known.exercises, options.exercise) if options.exercise else None
    if options.json:
        context.say_json(chosen or known)
    elif chosen is not None:
        _show(context.console(), chosen)
    else:
        _list(context.console(), known)
    return OK


def _list(console: Console, known: Catalogue) -> None:
    chapters = dict.fromkeys([*known.chapters, *(card.chapter for card in known.exercises)])
    for chapter in chapters:
        found = [card for card in known.exercises if card.chapter == chapter]
        if not found:
            continue
        console.print(Text(chapter or "Exercises", style="bold"))
        table = Table.grid(padding=(0, 2, 0, 0))
        for card in found:
            presets = ", ".join(preset.name for preset in card.presets)
            words = str(card.problem) if card.problem else card.summary or card.subtitle or card.title
            table.add_row(f"  {card.id}", words, f"presets: {presets}" if presets else "")
        console.print(table)
    console.print("\nclew catalogue EXERCISE shows one of them, clew run EXERCISE runs it.")


def _show(console: Console, card: ExerciseCard) -> None:
    console.print(Text(f"{card.title} ({card.id})", style="bold"))
    for line in (card.subtitle, card.summary, f"From: {card.course}" if card.course else ""):
        if line:
            console.print(line)
    if card.problem:
        console.print(str(card.problem))
    _rows(console, "Presets", [(f"--preset {p.name}", f"{p.title}. {p.help}".strip()) for p in card.presets])
    _rows(console, "Hyperparameters", [(f"--{p.name.replace('_', '-')}", about(p)) for p in card.params])
    live = ", ".join(p.name for p in card.params if p.live)
    if live:
        console.print(f"  May be changed while the run trains: {live}")
    _rows(console, "Goals", [(goal.id, f"{goal.text}. {goal_detail(goal, card)}") for goal in card.goals])
    _rows(console, "Data sets", [(name, "the default" if name == card.datasets[0] else "") for name in card.datasets])
    values = ", ".join(f"{p.name} {format_value(p.default) or 'none'}" for p in card.params if p.shown_when is None)
    console.print(f"\nThe course's values: {values}")


def _rows(console: Console, heading: str, rows: Sequence[tuple[str, str]]) -> None:
    if not rows:
        return
    console.print(Text(f"\n{heading}", style="bold"))
    table = Table.grid(padding=(0, 2, 0, 0))
    for left, right in rows:
        table.add_row(f"  {left}", right)
    console.print(table)
