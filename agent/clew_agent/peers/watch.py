"""Watches the peers of an attempt: says why one is lost, and has it replaced where another process can do its work."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from clew_agent.node.child_output import tail
from clew_agent.node.pulse.sampler import Sample
from clew_agent.peers.members import Member, Members
from clew_agent.peers.messages import SILENCE_S, Complaint, Index, Silence, log_of
from clew_agent.peers.processes import PeerStarter
from clew_shared.base import operating_system
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.journal.events import Event, Log
from clew_shared.journal.run_folder import RunFolder

JOIN_S = 60.0
"""Seconds in which a peer must report: an import of TensorFlow from a network disk takes half a minute."""
_IMPORT_SILENCE_S, _MEET_SILENCE_S = 120.0, 30.0
"""Silences that a peer may keep while it imports TensorFlow from a slow disk, and while TensorFlow's processes find
each other. They are longer than later: both can hold up all its threads but ZeroMQ's, which say that the process is not
frozen."""
COMPUTING_S = 3.0
"""Seconds within which the death of another peer is known: a peer that fails in a step may fail because of it."""
_CUT_S = 5.0
"""Seconds within which the program that ran a peer on its node says how a peer whose connection is cut has ended."""
_GRACE_S = 5.0
"""Seconds that a trainer gets when a peer is lost. TensorFlow then comes back with an error, usually at once; a trainer
that hangs longer is ended."""
_REPLACE_S = 2.0
"""Seconds that a process that is to be replaced gets to end; no messages are received meanwhile."""
_MOST_REPLACEMENTS = 3
"""Number of times that a peer is replaced before it could even join; then its place is given up, and the run with
it."""


@dataclass(frozen=True)
class Limits:
    """The seconds that the chief waits: for all peers to ``join``, for a word of one (``silence``), and for TensorFlow
    to notice that one is lost (``grace``)."""

    join: float = JOIN_S
    silence: float = SILENCE_S
    grace: float = _GRACE_S


class Watch:
    """The watch over all ``members``; used by one thread. ``record`` takes events for the journal."""

    def __init__(
        self,
        folder: RunFolder,
        members: Members,
        starter: PeerStarter,
        limits: Limits,
        record: Callable[[Event], None],
    ) -> None:
        self._folder = folder
        self._members = members
        self._starter = starter
        self._limits = limits
        self._record = record
        self._silence = Silence(time.monotonic())
        self._lost_at = 0.0

    def awake(self) -> None:
        """Notes that this process runs; to be called often."""
        self._silence.look(time.monotonic())

    def received(self, member: Member) -> None:
        """Notes that a message of this one has arrived."""
        self._silence.received(member.index)

    def complained(self, member: Member, complaint: Complaint) -> None:
        """Notes that it cannot go on; the first complaint counts."""
        if member.complaint is None:
            member.complaint, member.complained = complaint, time.monotonic()

    def sampled(self, member: Member, sample: Sample) -> None:
        """Have the journal say what its process and its node did."""
        for event in member.sampled(sample):
            self._tell(event)

    def note(self, member: Member, status: str) -> None:
        """Have the journal say what has become of it."""
        for event in member.samples.rest() if member.samples is not None else ():
            self._tell(event)
        self._tell(member.event(status))

    def look(self) -> Problem | None:
        """Looks after all of them; the loss with which the trainer does not come back, so that it must be ended."""
        members = self._members
        if members.lost is not None:
            hangs = not members.noticed and time.monotonic() - self._lost_at > self._limits.grace
            return members.lost if hangs else None
        for member in members.all:
            why = self._why_lost(member)
            if why is not None:
                self._part_with(member, why)
                break
        return None

    def missing(self) -> list[Problem]:
        """Says who has not joined."""
        hint = "Check that this node works and sees the run's folder, or start the run on fewer nodes."
        absent = [one for one in self._members.all if one.joined is None]
        return [
            Problem("peers.missing", self._unheard(one) + _printed(self._folder, one.index), hint, one.host)
            for one in absent
        ]

    def _unheard(self, member: Member) -> str:
        return f"{member.name} did not answer within {self._limits.join:.0f} s of its start."

    # Why one is lost.

    def _why_lost(self, member: Member) -> Problem | None:
        code = member.process.exit_code() if member.process is not None else None
        if code is not None:
            return self._end_of(member, code)
        if member.complaint is not None:
            waits = COMPUTING_S if member.complaint.computing else 0.0
            if time.monotonic() - member.complained >= waits:
                return self._complained(member, member.complaint.problem)
        waited = time.monotonic() - member.started
        if member.joined is None and self._members.has_roles and waited > self._limits.join:
            return _lost(self._unheard(member), "Check that its node works and sees the run's folder.", member)
        silent = self._silence.seconds(member.index) if member.joined is not None else 0.0
        cut = member.cut and time.monotonic() - member.cut > _CUT_S
        if silent <= self._most_silence(member) and not cut:
            return None
        text = f"{member.name} has said nothing for {silent:.0f} s and was ended."
        return _lost(text, "Its process or node is frozen, or the network between the nodes is cut.", member)

    def _most_silence(self, member: Member) -> float:
        if member.built:
            return self._limits.silence
        return max(self._limits.silence, _MEET_SILENCE_S if member.prepared else _IMPORT_SILENCE_S)

    def _end_of(self, member: Member, code: int) -> Problem:
        if member.complaint is not None and not member.complaint.computing:
            return self._complained(member, member.complaint.problem)
        name = operating_system.signal_name(code)
        how = f"was killed ({name})" if name == "SIGKILL" else f"died of {name}" if name else ""
        if member.joined is None:
            text = f"{member.name} {how or f'ended with exit code {code}'} before it joined the run."
        else:
            text = f"{member.name} {how or f'ended with exit code {code}'}."
        if name == "SIGKILL":
            hint = "A person killed it, or its node ran out of memory."
        else:
            text += _printed(self._folder, member.index)
            hint = f"Its output is in peers/{member.index:04d}.log."
        return _lost(text, hint, member)

    def _complained(self, member: Member, found: Problem) -> Problem:
        return msgspec.structs.replace(found, text=f"{member.name}: {found.text}")

    # What is done about it.

    def _part_with(self, member: Member, why: Problem) -> None:
        if member.added and not member.port:
            self._drop(member, why)
        elif self._members.has_roles and member.port > 0 and member.replaced < _MOST_REPLACEMENTS:
            self._replace(member, why)
        else:
            self._lose(member, why)

    def _drop(self, member: Member, why: Problem) -> None:
        """Drops a peer that was added and never came: the others go on as they were."""
        self.note(member, "lost")
        self._tell(Log(text=f"{why.text} The others go on without it.", level="warning"))
        if member.process is not None:
            member.process.ask_to_end()
        self._members.drop(member)

    def _replace(self, member: Member, why: Problem) -> None:
        """Has another process do its work: under parameter servers, as soon as all have been at work once."""
        self._members.note_replaced(member)
        self.note(member, "killed" if member.asked_to_die else "lost")
        self._tell(Log(text=f"{why.text} Another process takes its place.", level="warning"))
        if member.process is not None:
            with suppress(subprocess.TimeoutExpired):  # a dead disk; it cannot be at work any more
                member.process.end(_REPLACE_S)
        self._silence.forget(member.index)
        member.start_over()
        try:
            member.start(self._starter)
        except OSError as error:
            self._lose(member, _lost(f"{member.name} could not be started: {error}.", "", member))

    def _lose(self, member: Member, why: Problem) -> None:
        self._lost_at = time.monotonic()
        self.note(member, "lost")
        if member.process is not None:
            member.process.ask_to_end()
        self._members.lose(member, why)

    def _tell(self, event: Event) -> None:
        with suppress(ProblemError):  # the disk refuses; the trainer learns that by itself
            self._record(event)


def _lost(text: str, hint: str, member: Member) -> Problem:
    host = member.joined.host if member.joined is not None else member.host
    continued = "Continue the run: it goes on from its last checkpoint, or begins again if it has none."
    return Problem("peers.lost", text, f"{hint} {continued}", host)


def _printed(folder: RunFolder, index: Index) -> str:
    last = tail(log_of(folder, index))
    return f" Last output:\n{last}\n" if last else ""
