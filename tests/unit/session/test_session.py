"""The session's parts without an agent: the run model, the job record, commands, inbox, the local agent's Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from clew_gui.base.settings import LocalSettings, local_settings
from clew_gui.jobs.job import Place
from clew_gui.session.intake import Changes
from clew_gui.session.links.conversation import OutgoingCommands
from clew_gui.session.links.fetcher import Fetcher
from clew_gui.session.links.inbox import (
    FULL_BYTES,
    FrameBatch,
    Inbox,
    LinkState,
    RequestFailed,
    Restarted,
    RunFound,
)
from clew_gui.session.run_record import RunLine, RunRecord, run_record
from clew_gui.session.runs import RunModel, read_heads, read_runs
from clew_gui.session.session import Session
from clew_gui.session.summaries import Summaries
from clew_gui.targets.local_agent import agent_command, find_agent, is_alive
from clew_gui.targets.target import LocalTarget
from clew_gui.views.runs.results import Results
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.base.remedies import set_up_tensorflow
from clew_shared.cards import Catalogue
from clew_shared.catalogue import load_builtin
from clew_shared.journal.events import Attempt, State
from clew_shared.journal.files import MIRRORS_LIST
from clew_shared.journal.frames import FrameReader
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.run_settings import RunNote
from clew_shared.spec import RunSpec, to_toml
from clew_shared.wire.messages import (
    AgentAddress,
    DisturbCluster,
    Done,
    Fetched,
    Pause,
    Refused,
    RunStatus,
    Stop,
    TryRun,
    Unpause,
)
from tests.unit.reports.test_handin import CARDS, made_run
from tests.unit.runs import RUN, small_run


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(home=tmp_path / "home", private=tmp_path / "private")


# --- The state that is shown ------------------------------------------------------------------------------------------


def said(state: RunState, attempt: int = 0, queue: int = 0, reason: str = "", size: int = 0) -> RunStatus:
    return RunStatus(run=RUN, exercise="softmax", state=state, attempt=attempt, size=size, queue=queue, reason=reason)


Q, S, R, F, X = RunState.QUEUED, RunState.STARTING, RunState.RUNNING, RunState.FINISHED, RunState.STOPPED


@pytest.mark.parametrize(
    ("journal", "status", "shown"),
    [
        (None, None, RunState.SUBMITTED),
        (None, said(Q, queue=2), Q),
        (None, said(S), S),
        (None, said(RunState.FAILED, reason="no memory"), RunState.FAILED),
        (None, said(F, 1, size=1000), S),  # its points are on their way
        (None, said(F, 1, size=10**7), F),  # they will take a while
        ((1, R), None, R),
        ((1, R), said(Q), R),  # the list is older than the journal
        ((1, R), said(R, 1), R),
        ((1, F), said(R, 1), F),  # the journal is ahead of the list
        ((1, F), said(S), F),
        ((1, X), said(Q, 1, queue=1), Q),  # continued, and waiting
        ((1, X), said(S, 1), S),
        ((2, R), said(S, 1), R),
        ((2, X), said(X, 2), X),
        ((1, R), said(F, 1), R),  # the last points are on their way
    ],
)
def test_the_journal_says_the_state_unless_a_continuation_waits(
    journal: tuple[int, RunState] | None, status: RunStatus | None, shown: RunState, tmp_path: Path
) -> None:
    model = RunModel(RunSpec(exercise="softmax", run=RUN), 3, tmp_path, "here")
    if journal is not None:
        attempt, state = journal
        model.history.feed(attempt, Attempt(format=1, run=RUN, attempt=attempt, exercise="softmax", spec_sha256=""))
        for step in (R, state) if state is not R else (R,):
            model.history.feed(attempt, State(state=step, reason="why" if step is state else ""))
    model.status = status
    assert model.state is shown
    assert (model.number, model.index) == (3, 2)
    if journal is not None and shown is journal[1]:
        assert model.reason == "why"


def test_a_journal_that_has_only_begun_is_no_draft(tmp_path: Path) -> None:
    model = RunModel(RunSpec(exercise="softmax", run=RUN), 1, tmp_path, "here")
    model.history.feed(1, Attempt(format=1, run=RUN, attempt=1, exercise="softmax", spec_sha256=""))
    assert model.state is S
    model.status = said(Q)
    assert model.state is S


def test_a_refused_run_failed_and_one_that_never_arrived_stopped(tmp_path: Path) -> None:
    model = RunModel(RunSpec(exercise="softmax", run=RUN), 1, tmp_path, "here")
    model.never_arrived = True
    assert (model.state, model.reason) == (X, "It never reached the agent.")
    model.refused = "wrong"
    assert (model.state, model.reason) == (RunState.FAILED, "wrong")


def test_catching_up_is_a_share_while_much_is_missing(tmp_path: Path) -> None:
    model = RunModel(RunSpec(exercise="softmax", run=RUN), 1, tmp_path, "here")
    assert model.catching_up is None
    model.took(1, 400_000, 1_000_000)
    assert model.catching_up == pytest.approx(0.4)
    model.took(1, 0, 1_000_000)  # a piece that completed no frame
    assert model.catching_up == pytest.approx(0.4)
    model.history.feed(1, Attempt(format=1, run=RUN, attempt=1, exercise="softmax", spec_sha256=""))
    model.status = said(F, 1)
    assert model.state is F, "buttons do not wait behind a long journal"
    model.took(1, 999_000, 1_000_000)
    assert model.catching_up is None
    assert model.state is S


# --- The job record ---------------------------------------------------------------------------------------------------


def test_numbers_are_kept_and_never_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "mirrors" / "runs.jsonl"
    record = RunRecord(path)
    assert [record.number(run) for run in ("a", "b", "a")] == [1, 2, 1]
    record.add(RunLine(run="b", forgotten=True))
    record.add(RunLine(run="a", refused="wrong"))
    again = RunRecord(path)
    assert again.number("c") == 3
    assert (again.forgotten, again.refused) == ({"b"}, {"a": "wrong"})


@pytest.mark.parametrize("junk", [b"\xff\xff\n", b"{}\n", b'{"run": 1}\n', b'{"run":"c","num', b"[" * 10_000 + b"\n"])
def test_a_damaged_line_costs_only_itself(junk: bytes, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    RunRecord(path).number("a")
    with path.open("ab") as file:
        file.write(junk)
    assert RunRecord(path).number("b") == 2
    assert RunRecord(path).numbers == {"a": 1, "b": 2}


def test_two_writers_never_give_one_number_to_two_runs(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    window, command = RunRecord(path), RunRecord(path)
    assert (window.number("a"), command.number("b"), window.number("b")) == (1, 2, 2)
    with path.open("a") as file:  # both at once: the later line gives way
        file.write('{"run":"c","number":3}\n{"run":"d","number":3}\n')
    for record in (window, command, RunRecord(path)):
        assert record.number_all(["d", "c", "e"]) == {"d": 4, "c": 3, "e": 5}
    assert RunRecord(path).numbers == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}


def test_numbers_are_only_thought_of_when_they_are_not_to_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "mirrors" / "runs.jsonl"
    assert RunRecord(path).number_all(["a", "b"], keep=False) == {"a": 1, "b": 2}
    assert not path.parent.exists()
    assert RunRecord(path).number_all(["b", "a"]) == {"b": 1, "a": 2}
    path.unlink()
    assert RunRecord(path).numbers == {}


# --- Commands ---------------------------------------------------------------------------------------------------------


def test_a_refusal_is_an_outcome_and_anything_else_is_none() -> None:
    commands = OutgoingCommands()
    commands.put(Pause(run="r"))
    first = commands.next()
    assert first == Pause(run="r")
    commands.sent(b"1", first)
    assert commands.answered(b"1", Done()) is None
    commands.sent(b"2", first)
    outcome = commands.answered(b"2", Refused(problem=Problem("a", "b")))
    assert outcome is not None
    assert (outcome.command, outcome.problem.code) == (first, "a")
    assert commands.answered(b"2", Refused(problem=Problem("a", "b"))) is None


def test_what_has_no_answer_is_asked_again_first_and_in_order() -> None:
    commands = OutgoingCommands()
    for request_id, command in ((b"1", Pause(run="r")), (b"2", Unpause(run="r"))):
        commands.sent(request_id, command)
    commands.put(Stop(run="r"))
    commands.cut()
    assert [commands.next() for _ in range(4)] == [Pause(run="r"), Unpause(run="r"), Stop(run="r"), None]


def test_what_waits_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew_gui.session.links.conversation.ANSWER_WITHIN_S", 0.0)
    commands = OutgoingCommands()
    commands.sent(b"1", Pause(run="r"))
    assert [outcome.problem.code for outcome in commands.late()] == ["link.timeout"]
    assert commands.late() == []


# --- Inbox and fetcher ------------------------------------------------------------------------------------------------


def test_the_inbox_is_full_at_its_limit_and_free_again_when_emptied() -> None:
    inbox = Inbox()
    inbox.put(RequestFailed(Problem("a", "b")))
    inbox.put(FrameBatch("r", 1, [], FULL_BYTES, 0, 0))
    full = [inbox.full]
    assert isinstance(inbox.take(), RequestFailed)
    full.append(inbox.full)
    assert isinstance(inbox.take(), FrameBatch)
    full.append(inbox.full)
    assert full == [True, True, False]
    assert inbox.take() is None


def test_a_pause_that_came_too_late_is_no_problem_since_the_run_is_over(tmp_path: Path) -> None:
    session = Session(Places(tmp_path, tmp_path), Catalogue(), recorded={})
    late = RequestFailed(Problem("run.ended", "The run ended before it could answer."))
    for arrival in (late, RequestFailed(Problem("control.timeout", "It did not answer."))):
        session._inbox.put(arrival)
    assert [found.code for found in session.tick().problems] == ["control.timeout"]
    session.close()


def taken(inbox: Inbox) -> list[object]:
    found: list[object] = []
    while (arrival := inbox.take()) is not None:
        found.append(arrival)
    return found


def test_a_run_is_fetched_to_its_seal_and_then_left_alone(tmp_path: Path) -> None:
    data = small_run(tmp_path / "node").journal(1).read_bytes()
    inbox = Inbox()
    fetcher = Fetcher(tmp_path / "mirrors", inbox)
    fetcher.note(said(Q, queue=1))
    assert fetcher.next_fetch() is None
    fetcher.note(said(R, 1))
    have = 0
    while (wanted := fetcher.next_fetch()) is not None:
        run, fetch = wanted
        assert (fetch.attempt, fetch.offset) == (1, have)
        fetcher.sent(run, b"id")
        assert fetcher.next_fetch() is None, "one fetch at a time for each run"
        have = min(have + 500, len(data))
        piece = data[fetch.offset : have]
        reply = Fetched(run=RUN, attempt=1, offset=fetch.offset, data=piece, size=len(data), attempts=1, sealed=True)
        assert fetcher.answered(b"id", reply)
    assert have == len(data)
    assert sum(batch.weight for batch in taken(inbox) if isinstance(batch, FrameBatch)) == len(data)
    assert not fetcher.answered(b"id", Done())


def test_a_full_inbox_stops_the_fetching_and_a_lost_fetch_is_asked_again(tmp_path: Path) -> None:
    inbox = Inbox()
    fetcher = Fetcher(tmp_path / "mirrors", inbox)
    fetcher.note(said(R, 1))
    inbox.put(FrameBatch("other", 1, [], FULL_BYTES, 0, 0))
    assert fetcher.next_fetch() is None
    inbox.take()
    first = fetcher.next_fetch()
    assert first is not None
    fetcher.sent(first[0], b"1")
    fetcher.lost()
    assert fetcher.next_fetch() is None
    fetcher.lost(everything=True)
    assert fetcher.next_fetch() == first


def test_a_journal_that_is_shorter_than_its_mirror_is_fetched_anew(tmp_path: Path) -> None:
    data = small_run(tmp_path / "node").journal(1).read_bytes()
    folder = tmp_path / "mirrors" / RUN
    folder.mkdir(parents=True)
    (folder / "journal.0001").write_bytes(data[: len(data) // 2])
    inbox = Inbox()
    fetcher = Fetcher(tmp_path / "mirrors", inbox)
    fetcher.note(said(R, 1))
    assert fetcher.next_fetch() is None, "the mirror is read first"
    while fetcher.replay():
        pass
    fetcher.replay()
    wanted = fetcher.next_fetch()
    assert wanted is not None
    assert wanted[1].offset == len(data) // 2
    fetcher.sent(RUN, b"1")
    fetcher.answered(b"1", Refused(problem=Problem("fetch.offset", "too far")))
    assert Restarted(RUN) in taken(inbox)
    fetcher.replay()
    wanted = fetcher.next_fetch()
    assert wanted is not None
    assert wanted[1].offset == 0


def _read_order(fetcher: Fetcher, inbox: Inbox, pieces: int) -> list[str]:
    """The runs of which the next pieces were read."""
    found: list[str] = []
    while len(found) < pieces:
        fetcher.replay()
        found += [one.run[0] for one in taken(inbox) if isinstance(one, FrameBatch)]
    return found


def _copies(home: Path) -> Path:
    """The copies of five runs of three exercises, the newest last."""
    data, mirrors = small_run(home / "node").journal(1).read_bytes(), home / "mirrors"
    for second, (name, exercise) in enumerate(
        [("a", "cnn"), ("b", "softmax"), ("c", "cnn"), ("d", "rnn"), ("e", "softmax")]
    ):
        folder = mirrors / f"{name}{RUN[1:]}"
        folder.mkdir(parents=True)
        (folder / "spec.toml").write_text(to_toml(RunSpec(exercise=exercise, run=folder.name)))
        (folder / "journal.0001").write_bytes(data)
        os.utime(folder, (second, second))
    return mirrors


def test_what_somebody_looks_at_is_read_first_and_the_newest_of_it(tmp_path: Path) -> None:
    inbox = Inbox()
    fetcher = Fetcher(_copies(tmp_path), inbox)
    fetcher.prefer(["cnn"])
    fetcher.find_mirrors(frozenset())
    assert _read_order(fetcher, inbox, 1) == ["c"]
    fetcher.prefer(["softmax"])
    assert _read_order(fetcher, inbox, 4) == ["e", "b", "a", "d"]


def test_runs_of_other_exercises_that_were_summed_up_are_read_when_somebody_looks_at_them(
    places: Places, tmp_path: Path
) -> None:
    places.home.mkdir()
    mirrors, inbox = _copies(tmp_path), Inbox()
    summaries = Summaries(places, load_builtin().exercises)
    for folder in mirrors.iterdir():
        summaries.of(folder)
    summaries.save()
    fetcher = Fetcher(mirrors, inbox, summaries=Summaries(places, load_builtin().exercises))
    fetcher.prefer(["cnn"])
    fetcher.find_mirrors(frozenset())
    arrived = {one.run[0]: one.summary for one in taken(inbox) if isinstance(one, RunFound)}
    assert sorted(arrived) == list("abcde")
    assert all(summary is not None and summary.fold.state is RunState.FINISHED for summary in arrived.values())
    assert _read_order(fetcher, inbox, 2) == ["c", "a"]
    assert not fetcher.replay()
    assert not fetcher.replay()
    assert taken(inbox) == []
    fetcher.note(RunStatus(run=f"d{RUN[1:]}", exercise="rnn", state=RunState.RUNNING, attempt=2, size=99))
    assert _read_order(fetcher, inbox, 1) == ["d"], "it goes on"
    fetcher.prefer(["softmax"])
    assert _read_order(fetcher, inbox, 2) == ["e", "b"]
    Fetcher(mirrors, inbox, summaries=Summaries(places)).find(f"b{RUN[1:]}")
    unjudged = [one.summary for one in taken(inbox) if isinstance(one, RunFound)]
    assert unjudged == [None], "its goals are judged by no exercise that is known"


def test_a_run_that_was_summed_up_shows_its_end_goals_and_best_before_its_journal_is_read(
    places: Places, tmp_path: Path
) -> None:
    card = CARDS["softmax"]
    folder = RunFolder(made_run(tmp_path / RUN))
    summary = Summaries(places, [card]).of(folder.path)
    model = RunModel(summary.spec or RunSpec(exercise=""), 1, folder.path, "")
    model.copied, model.summary = folder.journal(1).stat().st_size, summary
    judge = Results()
    judge.cards = {card.id: card}
    assert (model.state, model.unread, model.at_rest) == (RunState.FINISHED, False, True)
    assert [goal.id for goal in card.goals if judge.reached(goal, model)] == ["slides"]
    assert judge.best(next(one for one in card.metrics if one.name == "test_accuracy"), model) == pytest.approx(0.9079)
    asking = msgspec.structs.replace(card.goals[0], question="Why?")
    assert not judge.reached(asking, model), "its question has no answer yet"
    judge.answers_of = lambda _exercise: {"Why?": "It must be."}
    assert judge.reached(asking, model)
    assert not model.history.metrics
    model.history.feed(1, Attempt(format=1, run=RUN, attempt=1, exercise="softmax", spec_sha256=""))
    model.took(1, model.copied, model.copied)
    assert (model.summed_up, model.state) == (None, RunState.STARTING), "what was read counts from now on"
    model.restart()
    assert model.summary is None


def test_that_a_summed_up_run_has_been_read_is_news_of_its_state(places: Places, tmp_path: Path) -> None:
    folder = RunFolder(made_run(tmp_path / RUN))
    summary, size = Summaries(places, CARDS.values()).of(folder.path), folder.journal(1).stat().st_size
    assert summary.spec is not None
    session = Session(places, Catalogue(), LocalTarget(places, ["/bin/false"]))
    session._inbox.put(RunFound(RUN, summary.spec, size, summary))
    assert session.tick().new == {RUN}
    items = FrameReader().feed(folder.journal(1).read_bytes())
    session._inbox.put(FrameBatch(RUN, 1, items, size, size, size))
    assert session.tick(60.0).states == {RUN}, "how long the next run takes is known from now on"
    session.close()


# --- This computer's agent --------------------------------------------------------------------------------------------


def test_this_python_is_taken_when_it_has_tensorflow(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: object())
    assert agent_command(places)[0] == sys.executable
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ProblemError) as caught:
        agent_command(places)
    assert caught.value.problems[0].code == "agent.tensorflow"
    assert caught.value.problems[0].remedies == (set_up_tensorflow(),)


def test_the_python_of_the_settings_comes_first_and_must_exist(places: Places, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("")
    local_settings(places).save(LocalSettings(interpreter=str(python)))
    assert agent_command(places) == [str(python), "-P", "-m", "clew_agent", "serve"]
    python.unlink()
    with pytest.raises(ProblemError, match="no Python at"):
        agent_command(places)


def test_only_a_living_agent_of_this_host_is_found(places: Places) -> None:
    import platform

    places.agents.mkdir(parents=True)
    here = AgentAddress(
        agent="a",
        host=platform.node(),
        boot="",
        pid=psutil.Process().pid,
        generation=1,
        address="127.0.0.1",
        port=1,
        public_key="",
        allow_list="",
        started=psutil.Process().create_time(),
    )
    others = {
        "here": here,
        "elsewhere": msgspec.structs.replace(here, host="elsewhere"),
        "ended": msgspec.structs.replace(here, pid=2**22 + 1),
        "reused": msgspec.structs.replace(here, started=here.started - 1000),
    }
    for name, address in others.items():
        (places.agents / f"{name}.json").write_bytes(msgspec.json.encode(address))
    (places.agents / "broken.json").write_text("{")
    assert find_agent(places) == here
    assert [name for name, address in others.items() if is_alive(address)] == ["here", "elsewhere"]


def test_a_session_that_was_never_started_closes(places: Places) -> None:
    session = Session(places, Catalogue(), LocalTarget(places, ["/bin/false"]))
    assert session.tick().new == frozenset()
    session.close()


def test_recorded_runs_are_shown_and_nobody_acts_on_them(places: Places, tmp_path: Path) -> None:
    """Its own files are not read: what the window falls back to when they cannot be."""
    run_record(places, read=False).add(RunLine(run=RUN, note=RunNote(note="mine")))
    (places.mirrors / MIRRORS_LIST).rename(tmp_path / "runs.jsonl")
    (places.mirrors / MIRRORS_LIST).mkdir()
    small_run(tmp_path / RUN)
    recorded = read_runs(read_heads([tmp_path / RUN, tmp_path]), RunRecord(tmp_path / "runs.jsonl"))
    session = Session(places, load_builtin(), recorded=recorded)
    assert [(model.number, model.note.note) for model in session.runs.values()] == [(1, "mine")]
    assert session.link.state is LinkState.RECORDED
    assert session.runs[RUN].history.fold.attempt == 1
    actions: list[Callable[[], object]] = [
        lambda: session.start_run(RunSpec(exercise="softmax")),
        lambda: session.start_runs([RunSpec(exercise="softmax")], Place(site="cave")),
        lambda: session.continue_study([RUN], []),
        lambda: session.try_here(RUN),
        lambda: session.try_run(TryRun(run=RUN, sample=1)),
        lambda: session.hold(Place(site="cave")),
        lambda: session.cancel("job"),
        lambda: session.pause(RUN),
        lambda: session.unpause(RUN),
        lambda: session.stop(RUN),
        lambda: session.set_live(RUN, "learning_rate", 0.1),
        lambda: session.disturb(DisturbCluster(run=RUN, action="add")),
        lambda: session.continue_run(RUN),
        lambda: session.move_run(RUN, 1),
        lambda: session.annotate(RUN, RunNote(note="yours")),
        lambda: session.forget(RUN),
    ]
    for act in actions:
        with pytest.raises(ProblemError) as refusal:
            act()
        assert refusal.value.problems[0].code == "session.recorded"
    session.start()
    assert session.tick() == Changes()
    assert list(session.runs) == [RUN], "nothing has gone"
    session.close()


def test_a_run_whose_job_is_over_cannot_be_tried_because_its_checkpoints_are_there(
    places: Places, tmp_path: Path
) -> None:
    small_run(tmp_path / RUN)
    session = Session(places, load_builtin(), recorded=read_runs(read_heads([tmp_path / RUN]), run_record(places)))
    session.runs[RUN].elsewhere = True
    with pytest.raises(ProblemError, match="its checkpoints are on the site"):
        session.try_run(TryRun(run=RUN, sample=1))
    session.close()
