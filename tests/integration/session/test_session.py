"""A viewer's session against a real supervisor process: runs, cuts, deaths, and what a second window finds."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from clew_gui.base.settings import LocalSettings, local_settings
from clew_gui.commands.find import kept_runs
from clew_gui.session.links.conversation import other_version
from clew_gui.session.links.inbox import LinkState
from clew_gui.targets.local_agent import find_agent
from clew_shared.base.places import find_places
from clew_shared.base.problem import ProblemError
from clew_shared.cards import Catalogue
from clew_shared.catalogue import find_card, find_preset, load_builtin
from clew_shared.journal.files import journal_path
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.journal.verify import verify_run
from clew_shared.params import Value
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import PROTOCOL_VERSION, AgentAddress, Hello, Request
from tests.integration.agents import BOUND_S, Agent, trainers, wait_for
from tests.integration.session.conftest import Window
from tests.unit.runs import RUN, small_run


def end(address: AgentAddress, how: signal.Signals) -> None:
    """End the agent's process and wait until it is gone (and reaped, where it is a child of this one)."""
    process = psutil.Process(address.pid)
    process.send_signal(how)
    try:
        process.wait(BOUND_S)
    except psutil.NoSuchProcess:
        return


SLOW: dict[str, Value] = {"steps": 100_000, "pause": 0.02}


def test_the_agent_is_started_when_none_serves_and_left_alone_when_the_window_closes(window: Window) -> None:
    window.until(lambda: window.session.link.state is LinkState.LIVE)
    window.session.close()
    address = find_agent(window.places)
    assert address is not None
    assert psutil.pid_exists(address.pid)
    assert not [thread for thread in threading.enumerate() if thread.name == "clew-link"]


def test_a_run_is_there_at_once_its_points_arrive_and_its_copy_is_the_nodes(window: Window) -> None:
    model = window.start(steps=500)
    assert (model.state, model.number, model.index) == (RunState.SUBMITTED, 1, 0)
    window.until_state(model, RunState.FINISHED)
    window.until_same(model)
    assert model.history.fold.step == 500
    column = model.history.column("loss")
    assert column.steps.tolist() == list(range(500))
    assert column.values[9] == pytest.approx(0.1)
    assert model.where == "This computer"
    assert window.problems == []


def test_a_run_is_paused_changed_continued_and_stopped(window: Window) -> None:
    model = window.start(**SLOW)
    window.until_state(model, RunState.RUNNING)
    wait_for(lambda: (window.places.private / "runs" / f"{model.id}.json").exists())
    window.session.pause(model.id)
    window.until_state(model, RunState.PAUSED)
    window.session.set_live(model.id, "learning_rate", 0.125)
    window.until(lambda: [live.value for live in model.history.live] == [0.125])
    window.session.unpause(model.id)
    window.until_state(model, RunState.RUNNING)
    window.session.stop(model.id)
    window.until_state(model, RunState.STOPPED)
    window.session.continue_run(model.id)
    window.until(lambda: model.history.fold.attempt == 2 and model.state is RunState.RUNNING)
    window.session.stop(model.id, now=True)
    window.until_state(model, RunState.STOPPED)
    window.until_same(model, 2)
    assert window.problems == []


def test_a_second_run_waits_in_the_queue(window: Window) -> None:
    first, second = window.start(**SLOW), window.start(**SLOW)
    window.until(lambda: second.state is RunState.QUEUED and second.queue == 1)
    assert (first.number, second.number) == (1, 2)
    window.session.stop(second.id)
    window.until_state(second, RunState.STOPPED)
    window.session.stop(first.id)
    window.until_state(first, RunState.STOPPED)


def test_tries_take_turns_at_one_number_and_what_nobody_keeps_leaves_nothing(new_window: Callable[..., Window]) -> None:
    window = new_window()
    session, places, ids = window.session, window.places, [""]
    number = window.start(steps=5).number
    for fault in ("", "hurries", ""):
        spec = RunSpec(exercise="stand-in", params={"steps": 20, **({"fault": fault, **SLOW} if fault else {})})
        if ids[-1]:
            session.discard(ids[-1])
        ids += session.start_runs((spec,), kept=False)
        last = session.runs[ids[-1]]
        assert last.number == number + 1
        window.until_state(last, RunState.RUNNING if fault else RunState.FINISHED)
    other = window.start(steps=5)
    assert (other.number, last.number) == (number + 1, number + 2), "somebody asked for the other one"
    session.keep(last.id)
    window.until_state(other, RunState.FINISHED)
    gone = set(ids[1:-1])
    window.until(lambda: not gone & {path.name for path in places.runs.iterdir()})
    assert not gone & ({path.name for path in places.mirrors.iterdir()} | set(session.runs))
    session.close()
    again = new_window()
    again.until(lambda: len(again.session.runs) == 3)
    assert sorted(run.number for run in again.session.runs.values()) == [number, number + 1, number + 2]
    assert not again.problems


def test_a_waiting_run_is_moved_taken_out_and_put_back_where_it_was(window: Window) -> None:
    first, *others = (window.start(steps=100_000, pause=0.02) for _ in range(4))
    window.until_state(first, RunState.RUNNING)

    def places(*wanted: int) -> None:
        window.until(lambda: [run.queue for run in others] == [*wanted], f"places {wanted}")

    places(1, 2, 3)
    window.session.move_run(others[2].id, 1)
    places(2, 3, 1)
    window.session.stop(others[0].id)
    places(0, 2, 1)
    assert (others[0].state, others[0].reason) == (RunState.STOPPED, "Taken out of the queue.")
    window.session.continue_run(others[0].id)
    window.session.move_run(others[0].id, 2)
    places(2, 3, 1)
    assert others[0].state is RunState.QUEUED
    assert window.problems == []


def test_wrong_values_are_refused_at_once_with_all_problems_and_leave_nothing(window: Window) -> None:
    with pytest.raises(ProblemError) as caught:
        window.start(steps=-1, learning_rate=0, speed=1)
    assert len(caught.value.problems) == 3
    with pytest.raises(ProblemError):
        window.session.start_run(RunSpec(exercise="stand-on"))
    assert window.session.runs == {}
    assert list(window.places.mirrors.glob("*-*")) == []


def test_what_the_agent_refuses_is_told_and_shown_as_failed_by_the_next_window_as_well(
    new_window: Callable[..., Window],
) -> None:
    window = new_window()
    run = window.session.start_run(RunSpec(exercise="stand-in", source_hash="of another version"))
    model = window.session.runs[run]
    window.until_state(model, RunState.FAILED)
    assert "another version" in model.reason
    assert [found.code for found in window.problems] == ["spec.source"]
    window.session.close()
    again = new_window()
    again.until(lambda: run in again.session.runs, "the run of the window before")
    again.until(lambda: again.session.link.state is LinkState.LIVE, "the agent")
    assert (again.session.runs[run].number, again.session.runs[run].state) == (model.number, RunState.FAILED)
    assert "another version" in again.session.runs[run].reason
    assert again.problems == []


def test_a_command_that_makes_no_sense_is_told(window: Window) -> None:
    model = window.start(steps=10)
    window.until_state(model, RunState.FINISHED)
    window.session.pause(model.id)
    window.until(lambda: bool(window.problems))
    assert window.problems[0].code == "run.not_running"
    with pytest.raises(ProblemError):
        window.session.pause("unknown")


def test_a_second_window_finds_runs_that_went_on_and_runs_that_ended(new_window: Callable[..., Window]) -> None:
    first = new_window()
    done = first.start(steps=100)
    first.until_state(done, RunState.FINISHED)
    running = first.start(**SLOW)
    first.until(lambda: running.history.fold.step > 50)
    first.session.close()
    seen = running.history.fold.step
    second = new_window()
    second.until(lambda: {done.id, running.id} <= second.session.runs.keys())
    again = second.session.runs[running.id]
    assert (second.session.runs[done.id].number, again.number) == (1, 2)
    assert again.spec == running.spec
    second.until(lambda: again.history.fold.step > seen and again.state is RunState.RUNNING)
    second.until_state(second.session.runs[done.id], RunState.FINISHED)
    second.session.stop(again.id)
    second.until_state(again, RunState.STOPPED)
    second.until_same(again)
    assert again.history.column("loss").steps.tolist() == list(range(again.history.fold.step))
    assert second.problems == []


def test_runs_started_by_others_are_found_with_their_spec(new_window: Callable[..., Window]) -> None:
    window, other = new_window(), new_window()
    model = other.start(steps=100)
    other.until_state(model, RunState.FINISHED)
    window.until(lambda: model.id in window.new)
    window.until_state(window.session.runs[model.id], RunState.FINISHED)
    assert window.session.runs[model.id].spec == model.spec


def test_a_run_made_without_a_window_is_found_under_the_number_that_the_commands_show(
    new_window: Callable[..., Window],
) -> None:
    places = find_places()
    made = small_run(places.runs / RUN)
    assert [(run.number, run.folder) for run in kept_runs(places)] == [(1, made.path)]
    window = new_window()
    model = window.start(steps=100)  # before the agent has told of the other
    window.until(lambda: RUN in window.session.runs)
    window.until_state(model, RunState.FINISHED)
    window.until_state(window.session.runs[RUN], RunState.FINISHED)
    assert (window.session.runs[RUN].number, model.number) == (1, 2)
    assert {run.folder.name: run.number for run in kept_runs(places)} == {RUN: 1, model.id: 2}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_that_ends_is_started_again_and_no_byte_is_lost(how: signal.Signals, window: Window) -> None:
    model = window.start(steps=1000, pause=0.02)
    window.until(lambda: model.history.fold.step > 50)
    for _ in range(2):
        address = find_agent(window.places)
        assert address is not None
        end(address, how)
        window.links.clear()
        window.until(lambda: LinkState.CONNECTING in window.links and window.links[-1] is LinkState.LIVE)
    window.until_state(model, RunState.FINISHED)
    window.until_same(model)
    assert model.history.column("loss").steps.tolist() == list(range(1000))
    wait_for(lambda: not trainers(model.id))


def test_an_agent_that_is_killed_after_it_served_is_replaced_without_a_word(window: Window) -> None:
    window.until(lambda: window.session.link.state is LinkState.LIVE)
    address = find_agent(window.places)
    assert address is not None
    os.kill(address.pid, signal.SIGKILL)  # the window alone learns its exit code
    window.until(lambda: window.links.count(LinkState.LIVE) == 2)
    assert window.problems == []


def test_other_settings_end_the_agent_politely_and_the_run_goes_on_under_the_next(window: Window) -> None:
    model = window.start(**SLOW)
    window.until_state(model, RunState.RUNNING)
    before = find_agent(window.places)
    assert before is not None
    window.session.renew_agent()
    psutil.Process(before.pid).wait(BOUND_S)

    def another() -> bool:
        found = find_agent(window.places)
        return found is not None and found.pid != before.pid and window.session.link.state is LinkState.LIVE

    window.until(another, "the next agent")
    step = model.history.fold.step
    window.until(lambda: model.history.fold.step > step + 20, "training")
    window.session.stop(model.id, now=True)
    window.until_state(model, RunState.STOPPED)
    assert window.problems == []


def test_a_frozen_agent_is_stale_and_live_again_and_training_goes_on(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = window.start(**SLOW)
    window.until(lambda: model.history.fold.step > 20)
    monkeypatch.setattr("clew_gui.session.links.link.STALE_AFTER_S", 0.5)
    address = find_agent(window.places)
    assert address is not None
    os.kill(address.pid, signal.SIGSTOP)
    window.until(lambda: window.session.link.state is LinkState.STALE)
    assert model.link_stale
    assert model.state is RunState.RUNNING
    size = journal_path(window.places.runs / model.id, 1).stat().st_size
    wait_for(lambda: journal_path(window.places.runs / model.id, 1).stat().st_size > size)
    monkeypatch.setattr("clew_gui.session.links.link.STALE_AFTER_S", 15.0)
    os.kill(address.pid, signal.SIGCONT)
    window.until(lambda: window.session.link.state is LinkState.LIVE)
    assert [run.link_stale for run in window.session.runs.values()] == [False]
    window.session.stop(model.id)
    window.until_state(model, RunState.STOPPED)
    window.until_same(model)


class Teleport(Request, frozen=True, kw_only=True, tag="teleport"):
    """A request of a later version."""


def test_an_older_agent_is_told_of_once_serves_and_says_what_it_does_not_know(
    new_window: Callable[..., Window], monkeypatch: pytest.MonkeyPatch
) -> None:
    later = partial(other_version, protocol=(1, 99), version="99.0")
    monkeypatch.setattr("clew_gui.session.links.conversation.other_version", later)
    window = new_window()
    window.until(lambda: bool(window.problems))
    asked: Any = Teleport()
    window.session.local_link.ask(asked)
    window.until(lambda: len(window.problems) > 1)
    said, refused = window.problems
    assert (said.code, "older than this one, Clew 99.0 (protocol 1.99)" in said.text) == ("link.version", True)
    assert refused.code == "request.unknown"
    assert "does not know the request 'teleport'" in refused.text
    address = find_agent(window.places)
    assert address is not None
    end(address, signal.SIGKILL)
    window.until_state(window.start(steps=20), RunState.FINISHED)
    assert [found.code for found in window.problems] == ["link.version", "request.unknown"], "the next one is no news"


def test_an_agent_of_another_major_version_is_watched_and_not_steered_and_that_is_said(
    new_window: Callable[..., Window], monkeypatch: pytest.MonkeyPatch
) -> None:
    older = new_window()
    run = older.start(**SLOW).id
    older.until(lambda: older.session.runs[run].history.fold.step > 0)
    monkeypatch.setattr("clew_gui.session.links.conversation.other_version", partial(other_version, protocol=(99, 0)))
    monkeypatch.setattr("clew_gui.session.links.conversation.Hello", partial(Hello, protocol=(99, 0)))
    window = new_window()
    window.until(lambda: bool(window.problems))
    (said,) = window.problems
    assert (said.code, said.text) == (
        "link.protocol",
        f"The agent speaks protocol {PROTOCOL_VERSION[0]}, this program 99.",
    )
    model = window.session.runs[run]
    window.session.stop(run)
    window.until(lambda: len(window.problems) > 1)
    assert window.problems[1].code == "protocol.major"
    step = model.history.fold.step
    window.until(lambda: model.history.fold.step > step)
    older.session.stop(run)
    window.until_state(model, RunState.STOPPED)
    window.until_same(model)


def test_what_was_asked_while_there_was_no_agent_is_done_when_there_is_one(window: Window) -> None:
    window.until(lambda: window.session.link.state is LinkState.LIVE)
    address = find_agent(window.places)
    assert address is not None
    end(address, signal.SIGKILL)
    model = window.start(steps=20)
    window.until_state(model, RunState.FINISHED)


def test_an_agent_that_cannot_be_started_is_told_once_and_tried_again(new_window: Callable[..., Window]) -> None:
    window = new_window(("/bin/sh", "-c", "echo no luck; exit 3"))
    window.until(lambda: window.links.count(LinkState.OFFLINE) >= 2)
    assert [found.code for found in window.problems] == ["agent.ended"]
    assert "no luck" in window.problems[0].text


def test_a_window_closes_at_once_also_while_there_is_no_agent(new_window: Callable[..., Window]) -> None:
    window = new_window(("/bin/sleep", "1"))
    window.session.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "clew-link"]


def test_a_forgotten_run_stays_away(new_window: Callable[..., Window]) -> None:
    window = new_window()
    model, other = window.start(steps=20), window.start(steps=20)
    window.until_state(other, RunState.FINISHED)
    window.until_same(model)
    window.session.forget(model.id)
    assert model.id not in window.session.runs
    window.until(lambda: not model.folder.exists())
    window.session.close()
    again = new_window()
    again.until(lambda: other.id in again.session.runs and again.session.link.state is LinkState.LIVE)
    third = again.start(steps=20)
    again.until_state(third, RunState.FINISHED)
    assert model.id not in again.session.runs
    assert third.number == 3


def test_a_mirror_that_is_not_the_nodes_is_set_aside_and_fetched_anew(new_window: Callable[..., Window]) -> None:
    first = new_window()
    model = first.start(steps=200)
    first.until_state(model, RunState.FINISHED)
    data = first.until_same(model)
    first.session.close()
    path = journal_path(model.folder, 1)
    path.write_bytes(data[:-100] + bytes(300))
    second = new_window()
    second.until(lambda: model.id in second.session.runs)
    again = second.session.runs[model.id]
    second.until_same(again)
    second.until(lambda: again.state is RunState.FINISHED and again.history.fold.step == 200)
    assert again.history.column("loss").steps.tolist() == list(range(200))
    assert (model.folder / "damaged.journal.0001").exists()


def test_a_run_that_never_reached_the_agent_says_so(window: Window) -> None:
    window.until(lambda: window.session.link.state is LinkState.LIVE)
    window.session.close()
    lost = RunSpec(exercise="stand-in", run=str(uuid.uuid4()))
    from clew_gui.session.links.mirror import Mirror

    Mirror(window.places.mirrors / lost.run).keep_spec(lost)
    later = Window()
    later.until(lambda: lost.run in later.session.runs and later.session.runs[lost.run].state in TERMINAL)
    assert "never reached" in later.session.runs[lost.run].reason
    later.session.close()


def test_a_viewer_that_does_not_tick_holds_back_no_more_than_the_inbox(window: Window) -> None:
    model = window.start(steps=500_000)
    node = journal_path(window.places.runs / model.id, 1)
    wait_for(lambda: node.exists() and node.stat().st_size > 5_000_000)
    mirror = journal_path(model.folder, 1)
    assert mirror.stat().st_size < 2_500_000
    window.until_state(model, *TERMINAL)
    window.until_same(model)
    window.until(lambda: model.history.fold.step == 500_000 and model.catching_up is None)


def test_the_other_agent_of_a_test_is_found(new_window: Callable[..., Window]) -> None:
    agent = Agent()
    address = agent.address()
    window = new_window(("/bin/false",))
    window.until(lambda: window.session.link.state is LinkState.LIVE)
    found = find_agent(window.places)
    assert found == address
    window.session.close()
    assert agent.end() == 0


# --- With the real trainer --------------------------------------------------------------------------------------------


def real_spec(preset_name: str = "tiny", **params: Value) -> RunSpec:
    card = find_card(load_builtin().exercises, "softmax")
    preset = find_preset(card, preset_name)
    values = {**preset.values, **params}
    return RunSpec(
        exercise="softmax", preset=preset_name, data=preset.data, params=values, source_hash=card.source_hash
    )


BROKEN = "x = 1\nif x\n"


def test_every_change_of_the_folder_of_own_exercises_is_seen(new_window: Callable[..., Window], tmp_path: Path) -> None:
    """Other folders, one after the other, and then files of the last one; none of them is imported: that takes long."""
    window = new_window(None, load_builtin())
    session, file = window.session, local_settings(window.places)
    seen: list[Catalogue] = []

    def shows(*titles: str) -> Callable[[], bool]:
        def shown() -> bool:
            seen.extend(filter(None, [window.tick().catalogue]))
            own = [card for card in seen[-1].exercises if card.chapter == "Your own"] if seen else []
            return sorted(card.title for card in own) == sorted(titles)

        return shown

    window.until(lambda: session.link.state is LinkState.LIVE, "the agent")
    for number in range(4):
        folder = tmp_path / f"lab{number}"
        folder.mkdir()
        (folder / f"one{number}.py").write_text(BROKEN)
        file.save(LocalSettings(exercises=str(folder)))
        session.renew_agent()
        window.until(shows(f"one{number}.py"), f"folder {number}")
    (folder / "two.py").write_text(BROKEN)
    window.until(shows("one3.py", "two.py"), "a new file")
    card = next(card for card in seen[-1].exercises if card.title == "two.py")
    assert card.problem is not None
    assert card.problem.where.endswith("two.py:2")
    (folder / "two.py").unlink()
    window.until(shows("one3.py"), "a file less")
    before = len(seen)
    (folder / "one3.py").write_text("x = 1\n" + BROKEN)
    window.until(lambda: bool(shows("one3.py")()) and len(seen) > before, "a changed file")
    assert window.problems == []


@pytest.fixture
def real_window(home: object, new_window: Callable[..., Window]) -> Window:
    """A window whose agent is the product's own, with TensorFlow in its trainers."""
    return new_window(None, load_builtin())


@pytest.mark.timeout(600)
def test_a_real_run_is_steered_from_the_window_and_its_copy_verifies(real_window: Window) -> None:
    window, session = real_window, real_window.session
    model = session.runs[session.start_run(real_spec(steps=1_000_000))]
    window.until(lambda: model.history.fold.step > 0, "the first step", 3 * BOUND_S)
    session.pause(model.id)
    window.until_state(model, RunState.PAUSED)
    step = model.history.fold.step
    session.set_live(model.id, "learning_rate", 0.125)
    session.unpause(model.id)
    window.until(lambda: model.history.fold.step > step)
    assert [(live.name, live.value) for live in model.history.live] == [("learning_rate", 0.125)]
    session.stop(model.id)
    window.until_state(model, RunState.STOPPED)
    stopped = model.history.fold.step
    session.continue_run(model.id)
    window.until(lambda: model.history.fold.attempt == 2 and model.history.fold.step > stopped, "more", 3 * BOUND_S)
    session.stop(model.id, now=True)
    window.until_state(model, RunState.STOPPED)
    for attempt in (1, 2):
        window.until_same(model, attempt)
    steps = model.history.column("loss").steps
    assert steps.tolist() == list(range(len(steps)))
    assert len(steps) > stopped
    assert verify_run(window.places.runs / model.id).ok
    assert window.problems == []


def test_a_real_run_is_stopped_while_tensorflow_is_still_being_imported(real_window: Window) -> None:
    window, session = real_window, real_window.session
    model = session.runs[session.start_run(real_spec())]
    window.until_state(model, RunState.STARTING)
    session.stop(model.id)
    window.until_state(model, *TERMINAL)
    assert model.state is RunState.STOPPED
    wait_for(lambda: not trainers(model.id))
    window.until_same(model)
    assert window.problems == []
