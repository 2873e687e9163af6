"""``clew by-hand``: training steps of a small network, number by number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from clew_gui.charts.by_hand import in_words
from clew_gui.commands.agent_program import cards
from clew_gui.commands.context import OK, CommandContext, Parser
from clew_shared.base.problem import problem
from clew_shared.catalogue import find_card
from clew_shared.study.by_hand import TURNS, Walk, said


def by_hand(context: CommandContext, argv: Sequence[str]) -> int:
    """Writes all numbers of the first steps."""
    parser = Parser("clew by-hand", "Go through training steps of a small network, number by number.")
    parser.add_argument("exercise", metavar="EXERCISE", nargs="?", default="perceptron", help="default: perceptron")
    parser.add_argument("--steps", type=int, default=1, metavar="N", help="how many steps, 1 to 1000; default: 1")
    parser.add_argument("--exercises", metavar="DIR", help="add your own exercises, the files in this folder")
    words = parser.parse_args(argv)
    if not 1 <= words.steps <= 1000:
        raise problem("cli.number", f"--steps is {words.steps}.", "Give a number from 1 to 1000.", "--steps")
    network = find_card(cards(context.places, words.exercises).exercises, words.exercise).by_hand
    if network is None:
        text = f"The exercise {words.exercise} has no network to go through by hand."
        raise problem("cli.by_hand", text, "The exercise perceptron has one.", words.exercise)
    walk = Walk(network)
    for number in range(words.steps):
        moment = walk.at((number + 1) * len(TURNS))
        x, y, kind = moment.point
        context.say(f"Step {number + 1}: the point ({x:g}, {y:g}), class {kind}; mean loss of all {said(moment.loss)}")
        for turn, lines in groupby(moment.lines, key=lambda line: line.turn):
            context.say(f"  {TURNS[turn]}")
            for line in lines:
                context.say(f"    {in_words(line)}")
    last = walk.at(words.steps * len(TURNS) + 1).loss
    context.say(f"Afterwards the mean loss of all points is {said(last)}.")
    return OK
