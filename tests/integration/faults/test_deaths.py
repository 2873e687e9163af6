"""kill -9 of whatever takes part in a run, at random moments, one at a time and in pairs."""

from __future__ import annotations

import itertools

import pytest

from clew_shared.lifecycle import RunState
from tests.integration.faults.lab import DistantViewer, Lab
from tests.integration.faults.oracle import judge

RUN = {"steps": 300, "pause": 0.02, "checkpoint_every": 70}
ROLES = ("trainer", "guard", "supervisor", "viewer")
EARLY = 3
"""Steps before which a death counts as one while the run starts."""


def kill(lab: Lab, role: str, run: str, other: DistantViewer) -> bool:
    """Whatever the role is; a viewer is opened again at once."""
    if role == "viewer":
        other.reopen()
        lab.tally.add("kills")
        return True
    return lab.kill(role, run)


def test_a_killed_trainer_has_failed_and_says_what_is_known(judged_lab: Lab) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    for _ in lab.chance.rounds(1, 20):
        run = viewer.start(**RUN)
        lab.trained(run, lab.dice.randrange(EARLY, 200))
        assert lab.kill("trainer", run)
        lab.ended(run)
        judge(lab, run, RunState.FAILED, "SIGKILL")
        problem = viewer.model(run).history.fold.problem
        assert problem is not None
        assert "The stand-in begins" in problem.text, "the last lines of its output"
        assert "out of memory" in problem.hint


def test_a_killed_trainer_goes_on_from_its_checkpoint_and_repeats_its_steps_to_the_bit(judged_lab: Lab) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    for _ in lab.chance.rounds(1, 20):
        run, deaths = viewer.start(**RUN), lab.dice.randrange(1, 3)
        for attempt in range(1, deaths + 1):
            lab.trained(run, lab.dice.randrange(80, 250), attempt)
            assert lab.kill("trainer", run)
            lab.shown(run, RunState.FAILED)
            viewer.session.continue_run(run)
            lab.trained(run, 1, attempt + 1)
        lab.shown(run, RunState.FINISHED)
        history = judge(lab, run, RunState.FINISHED)
        assert history.fold.attempt == deaths + 1
        assert history.column("loss").steps.size == RUN["steps"]


@pytest.mark.parametrize("role", ["guard", "supervisor", "viewer"])
def test_training_does_not_notice_the_death_of_the(role: str, judged_lab: Lab) -> None:
    lab = judged_lab
    viewer, other = lab.viewer(), lab.distant_viewer()
    for _ in lab.chance.rounds(1, 20):
        run = viewer.start(**RUN)
        lab.trained(run, lab.dice.randrange(EARLY, 200))
        lab.rest(lab.dice.random() * 0.1)
        assert kill(lab, role, run, other)
        lab.ended(run)
        judge(lab, run, RunState.FINISHED)


@pytest.mark.parametrize("pair", list(itertools.combinations(ROLES, 2)), ids="-".join)
def test_two_die_one_after_the_other(pair: tuple[str, str], judged_lab: Lab) -> None:
    lab = judged_lab
    viewer, other = lab.viewer(), lab.distant_viewer()
    for _ in lab.chance.rounds(1, 20):
        run = viewer.start(**RUN)
        lab.trained(run, lab.dice.randrange(EARLY, 150))
        for role in lab.dice.sample(pair, 2):
            kill(lab, role, run, other)
            lab.rest(lab.dice.choice((0.0, 0.05, 0.3)) * lab.dice.random())
        lab.ended(run)
        state = RunState.FAILED if "trainer" in pair else RunState.FINISHED
        reason = viewer.model(run).reason
        assert state is RunState.FINISHED or "SIGKILL" in reason or "guard" in pair, reason
        judge(lab, run, state)


@pytest.mark.parametrize("roles", [("trainer",), ("guard",), ("supervisor",), ("supervisor", "guard")], ids="-".join)
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
