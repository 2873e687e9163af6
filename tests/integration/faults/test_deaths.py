"""kill -9 of whatever takes part in a run, at random moments, one at a time and in pairs."""

from __future__ import annotations

import itertools

import pytest

from clew_shared.journal.lifecycle import RunState
from tests.integration.faults.lab import WAYS, DistantViewer, Lab, Viewer
from tests.integration.faults.oracle import judge
from tests.integration.faults.programs import WARMING_S

RUN = {"steps": 600, "pause": 0.02, "checkpoint_every": 70}
ENDLESS = RUN | {"steps": 1_000_000}
ROLES = ("trainer", "guard", "supervisor", "nursery", "viewer")
BOTH_WAYS = pytest.mark.parametrize("way", WAYS)
EARLY = 3
"""Steps before which a death counts as one while the run starts."""


def kill(lab: Lab, role: str, run: str, other: DistantViewer) -> bool:
    """Whatever the role is; a viewer is opened again at once."""
    if role == "viewer":
        other.reopen()
        lab.tally.add("kills")
        return True
    return lab.kill(role, run)


@BOTH_WAYS
def test_a_killed_trainer_has_failed_and_says_what_is_known(judged_lab: Lab) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    for _ in lab.chance.rounds(1, 20):
        run = viewer.start(**ENDLESS)
        lab.trained(run, lab.dice.randrange(EARLY, 200))
        assert lab.kill("trainer", run)
        lab.ended(run)
        judge(lab, run, RunState.FAILED, "SIGKILL")
        problem = viewer.model(run).history.fold.problem
        assert problem is not None
        assert "The stand-in begins" in problem.text, "the last lines of its output"
        assert "another program" in problem.hint, "no memory was short"


def test_a_killed_trainer_goes_on_from_its_checkpoint_and_repeats_its_steps_to_the_bit(judged_lab: Lab) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    for _ in lab.chance.rounds(1, 20):
        run, deaths = viewer.start(**ENDLESS), lab.dice.randrange(1, 3)
        for attempt in range(1, deaths + 1):
            lab.trained(run, lab.dice.randrange(80, 250), attempt)
            assert lab.kill("trainer", run)
            fold = viewer.model(run).history.fold
            lab.wait(lambda f=fold, a=attempt: f.attempt == a and f.state is RunState.FAILED, "its end")  # type: ignore[misc]
            viewer.session.continue_run(run)
            lab.trained(run, 1, attempt + 1)
        lab.trained(run, 300, deaths + 1)
        viewer.session.stop(run)
        lab.shown(run, RunState.STOPPED)
        history = judge(lab, run, RunState.STOPPED, "on request")
        assert history.fold.attempt == deaths + 1


@pytest.mark.parametrize(
    ("role", "way"),
    [("guard", "nursery"), ("guard", "fresh"), ("supervisor", "nursery"), ("nursery", "nursery"), ("viewer", "fresh")],
)
def test_training_does_not_notice_the_death_of_the(role: str, judged_lab: Lab) -> None:
    lab = judged_lab
    viewer, other = lab.viewer(), lab.distant_viewer()
    for _ in lab.chance.rounds(1, 20):
        if role == "nursery":
            lab.nursery()
        run, step = viewer.start(**ENDLESS), lab.dice.randrange(EARLY, 200)
        lab.trained(run, step)
        lab.rest(lab.dice.random() * 0.1)
        lab.wait(lambda run=run: kill(lab, role, run, other), f"the death of the {role}")  # type: ignore[misc]
        _goes_on_until_it_is_stopped(lab, viewer, run, step)


PAIRS = [
    *((pair, "nursery") for pair in itertools.combinations(ROLES, 2)),
    *((pair, "fresh") for pair in itertools.combinations(("trainer", "guard", "supervisor"), 2)),
]


@pytest.mark.parametrize(("pair", "way"), PAIRS, ids=lambda words: words if isinstance(words, str) else "-".join(words))
def test_two_die_one_after_the_other(pair: tuple[str, str], judged_lab: Lab) -> None:
    lab = judged_lab
    viewer, other = lab.viewer(), lab.distant_viewer()
    for _ in lab.chance.rounds(1, 20):
        if "nursery" in pair:
            lab.nursery()
        run, step = viewer.start(**ENDLESS), lab.dice.randrange(EARLY, 150)
        lab.trained(run, step)
        for role in lab.dice.sample(pair, 2):
            killed = kill(lab, role, run, other)
            assert killed or role == "guard" or (role == "nursery" and "supervisor" in pair), "it was there"
            lab.rest(lab.dice.choice((0.0, 0.05, 0.3)) * lab.dice.random())
        if "trainer" not in pair:
            _goes_on_until_it_is_stopped(lab, viewer, run, step)
            continue
        lab.ended(run)
        reason = viewer.model(run).reason
        assert "SIGKILL" in reason or "guard" in pair, reason
        judge(lab, run, RunState.FAILED)


def _goes_on_until_it_is_stopped(lab: Lab, viewer: Viewer, run: str, step: int) -> None:
    lab.trained(run, step + 200)
    lab.wait(lambda: viewer.live, "the link")
    viewer.session.stop(run)
    lab.shown(run, RunState.STOPPED)
    judge(lab, run, RunState.STOPPED)


@pytest.mark.parametrize(
    ("roles", "way"),
    [
        (("trainer",), "fresh"),
        (("guard",), "nursery"),
        (("supervisor",), "nursery"),
        (("supervisor", "guard"), "fresh"),
        (("supervisor", "guard"), "nursery"),
    ],
    ids=lambda words: words if isinstance(words, str) else "-".join(words),
)
def test_a_death_while_the_run_starts_leaves_a_run_that_can_be_continued(roles: tuple[str, ...], lab: Lab) -> None:
    """Nothing may be recorded by then; whatever is shown, the run ends, and *Continue* brings it to its end."""
    viewer, other = lab.viewer(), lab.distant_viewer()
    lab.wait(lambda: viewer.live, "the link")
    for _ in lab.chance.rounds(1, 20):
        run = viewer.start(**RUN)
        first = "trainer" if roles == ("trainer",) else "guard"
        lab.wait(lambda run=run, first=first: lab.process(first, run), first)  # type: ignore[misc]
        lab.rest(lab.dice.random() * 0.3)
        for role in roles:
            kill(lab, role, run, other)
        lab.ended(run)
        if viewer.model(run).state is not RunState.FINISHED:
            assert viewer.model(run).reason, "it says why"
            viewer.session.continue_run(run)
            lab.shown(run, RunState.FINISHED)
        judge(lab, run, RunState.FINISHED)


def test_a_nursery_that_dies_while_it_warms_or_copies_is_replaced_and_every_run_begins(judged_lab: Lab) -> None:
    """Each run begins somehow: as a copy of the next nursery, or in a fresh interpreter."""
    lab = judged_lab
    viewer = lab.viewer()
    lab.wait(lambda: viewer.live, "the link")
    run = ""
    for number in lab.chance.rounds(2, 30):
        if number % 4 == 3 and lab.kill("supervisor", run):
            lab.wait(lambda: not viewer.live, "the link breaks")  # an agent tries no sixth that dies before it is warm
            lab.wait(lambda: viewer.live, "the link to the next agent")
        lab.nursery()
        lab.rest(lab.dice.random() * 2 * WARMING_S)
        run = viewer.start(**RUN)
        lab.rest(lab.dice.choice((0.0, 0.1)) * lab.dice.random())
        lab.kill("nursery", run)
        lab.ended(run)
        judge(lab, run, RunState.FINISHED)
