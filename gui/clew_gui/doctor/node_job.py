"""The doctor's own job: tiny, short, and gone afterwards. It shows what a node has, and whether it can be reached."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from typing import Any

import msgspec

from clew_gui.doctor.examination import CheckResult, Diagnosis, NodeAnswer, fine, listed, note, wrong
from clew_gui.doctor.home import compared
from clew_gui.doctor.routes import not_an_answer, refused_at, what_it_asks
from clew_gui.nodes.routes import SPEAKS_S, first_bytes
from clew_gui.schedulers.allocation import seconds_asked
from clew_gui.schedulers.job import LOG, SCRIPT, JobRef, JobSpec
from clew_gui.schedulers.state import ENDED, NOT_KNOWN, WAITING, JobState, Phase
from clew_gui.schedulers.words import NOT_ON_NODES
from clew_shared.base.foreign import json_or_none
from clew_shared.base.problem import ProblemError, no_tensorflow, problem

JOB_S = 300
"""The time that the job asks for."""
WAIT_S = 180.0
"""The seconds that the doctor waits for the job to start; a longer queue is no fault."""
ANSWER_S = 170.0
"""The seconds in which a started job that is at work says more: where nothing moves, it says that after two minutes."""
SAID_S = 20.0
"""The seconds after which a started job that has not answered is reported as waited for."""
LATE_S = 20.0
"""The longest delay, in seconds, until a file that a node has written is visible on the login node."""
_PROGRAM = """cd -- "$CLEW_JOB_FOLDER" || exit 0
"$1" node_there.py "$2" "$3" && exit 0
[ -e answer.json ] && exit 0
printf '{"host": "%s", "whole": true}\\n' "$(uname -n)" >answer.new && mv -f answer.new answer.json
"""
_POLL_S = 1.0
_LONGEST_POLL_S = 5.0


def node(diagnosis: Diagnosis) -> CheckResult:
    """Send the job, wait for it, call it, and keep what it says for the checks that follow."""
    started = time.monotonic()
    try:
        with _sent(diagnosis) as (spec, ref):
            return _followed(diagnosis, spec, ref)
    finally:
        diagnosis.more_time(time.monotonic() - started)


@contextmanager
def _sent(diagnosis: Diagnosis) -> Iterator[tuple[JobSpec, JobRef]]:
    """The job in the queue; ended and forgotten afterwards, whatever happens. Raises ``ProblemError``."""
    dialect = diagnosis.scheduler
    spec = _job(diagnosis)
    diagnosis.connection.make_folder(spec.folder)
    ref = JobRef("", spec.job)
    try:
        texts = {"doctor.sh": _PROGRAM, SCRIPT: dialect.script(spec)}
        texts["node_there.py"] = files("clew_gui.doctor").joinpath("node_there.py").read_text(encoding="utf-8")
        for name, text in texts.items():
            diagnosis.connection.ssh.write(f"{spec.folder}/{name}", text.encode())
        taken = dialect.submitted(diagnosis.connection.run(dialect.submit(spec)))
        if taken.problem is not None:
            raise ProblemError(taken.problem)
        ref = JobRef(taken.id or dialect.found(spec, diagnosis.connection.run(dialect.find(spec))), spec.job)
        if not ref.id:
            text = "It is not known whether the scheduler accepted the doctor's job."
            raise problem("doctor.job", text, "Try again.")
        yield spec, ref
    finally:
        with suppress(ProblemError):  # the link may be gone; the job's own time is short
            if ref.id:
                diagnosis.connection.run(dialect.cancel(ref))
            diagnosis.sh('rm -rf -- "$1"', spec.folder)


def _job(diagnosis: Diagnosis) -> JobSpec:
    job = str(uuid.uuid4())
    folder = diagnosis.connection.layout().job(job)
    asked = diagnosis.site.allocation
    seconds = min(JOB_S, seconds_asked(asked) or JOB_S)
    executable = diagnosis.probed.executable if diagnosis.probed is not None else "python3"
    first, last = diagnosis.site.ports or (0, 0)
    agent = ("sh", f"{folder}/doctor.sh", executable, str(first), str(last))
    short = msgspec.structs.replace(asked, time=f"{seconds}s", nodes=1)
    return diagnosis.connection.job(job, folder, agent, short)


def _followed(diagnosis: Diagnosis, spec: JobSpec, ref: JobRef) -> CheckResult:
    """Wait for the job, and then for its answer; call it when it says its port."""
    deadline, next_look, pause = time.monotonic() + WAIT_S, 0.0, _POLL_S
    began = over = math.inf
    said = False
    state: JobState | None = None
    found: NodeAnswer | None = None
    seen: dict[str, Any] = {}
    # It was sent, so the scheduler is asked about it once, also if the doctor was stopped meanwhile.
    while (state is None and found is None) or (time.monotonic() < deadline and not diagnosis.stop.is_set()):
        now = time.monotonic()
        before, found = found, read_answer(diagnosis, spec) or found
        if found is not None:
            began, seen = min(began, now), seen or call_node(diagnosis, found)
            diagnosis.node = msgspec.structs.replace(found, **seen)
            if found.whole:
                home = diagnosis.connection.layout().home
                return fine(f"The doctor's job ran on {found.host}, which sees the folder {home}.")
            deadline = deadline if found == before else time.monotonic() + ANSWER_S
        elif now >= next_look:
            state = diagnosis.connection.job_states([ref])[ref.id]
            next_look, pause = now + pause, min(_LONGEST_POLL_S, pause * 1.5)
            over = min(over, now) if state.phase in ENDED or state.phase is Phase.GONE else math.inf
            if state.phase in WAITING | NOT_KNOWN and diagnosis.scheduler.explain(state).blocked:
                break
            if state.phase not in WAITING | NOT_KNOWN and began == math.inf:
                began, deadline = now, now + ANSWER_S
        if found is None and began < math.inf:
            if now - over >= LATE_S or diagnosis.sh('grep -qs "^state=ended" "$1"/record.*', spec.folder).code == 0:
                break
            if not said and now - began >= SAID_S:
                said = True
                diagnosis.questions.show_message(_waited_for(spec, deadline - now))
        diagnosis.stop.wait(_POLL_S)
    return _waits(diagnosis, state) if began == math.inf else _silent(diagnosis, spec, found)


def _waits(diagnosis: Diagnosis, state: JobState | None) -> CheckResult:
    if state is None or state.phase in NOT_KNOWN:
        diagnosis.causes["node"] = "it is not known what became of the doctor's job"
        return note("The scheduler does not report what became of the doctor's job; Clew cancelled it.")
    why = diagnosis.scheduler.explain(state)
    if why.blocked:
        return wrong(
            f"The scheduler accepted the doctor's job. {why.text}",
            "It was taken out of the queue again.",
            "doctor.blocked",
        )
    diagnosis.causes["node"] = "the doctor's job did not begin"
    return note(f"The doctor's job still waits: {why.text} It was taken out of the queue again.")


def _waited_for(spec: JobSpec, seconds: float) -> str:
    where = f"It writes its answer into {spec.folder}, which the nodes must see as well."
    return f"The doctor's job has begun and has not answered yet. {where} Waiting for it, for at most {seconds:.0f} s."


def _silent(diagnosis: Diagnosis, spec: JobSpec, found: NodeAnswer | None) -> CheckResult:
    if found is not None:
        return note(f"The doctor's job ran on {found.host}; it did not finish in time.")
    log = diagnosis.sh('tail -n 3 "$1"', f"{spec.folder}/{LOG}").out.strip().splitlines()
    said = f" Its log ends with: {' '.join(log)[:300]}" if log else " It left nothing that can be seen from here."
    hint = "Name a folder as scratch in the site that login node and nodes share."
    return wrong(f"The doctor's job was started, but gave no answer.{said}", hint, "doctor.node")


def read_answer(diagnosis: Diagnosis, spec: JobSpec) -> NodeAnswer | None:
    """Reads what the job has written by now; None if that is nothing, or cannot be read."""
    done = diagnosis.sh('cat -- "$1" 2>/dev/null', f"{spec.folder}/answer.json")
    return json_or_none(done.out, NodeAnswer)


def call_node(diagnosis: Diagnosis, found: NodeAnswer) -> dict[str, Any]:
    """What is seen of the node from outside. Connects to its port through the login node, as the tunnel does."""
    seen: dict[str, Any] = {"ahead": found.clock - time.time()}
    if found.port:
        try:
            with closing(diagnosis.connection.ssh.connect(found.host, found.port)) as stream:
                seen["reached"] = (first_bytes(stream, SPEAKS_S) or b"").startswith(b"clew")
        except ProblemError as error:
            seen["refusal"] = error.problems[0].text
    return {**seen, "no_login": refused_at(diagnosis, found.host)}


# --- The checks after it ---------------------------------------------------------------------------------------------


def _known(diagnosis: Diagnosis) -> NodeAnswer:
    if diagnosis.node is None:
        raise problem("doctor.node", "The node has not answered.")
    return diagnosis.node


def python_there(diagnosis: Diagnosis) -> CheckResult:
    """The same Python as on the login node?"""
    found, here = _known(diagnosis), diagnosis.probed.python if diagnosis.probed is not None else ""
    if not found.python:
        text = f"{diagnosis.probed.executable if diagnosis.probed else 'Python'} does not run on {found.host}."
        return wrong(text, NOT_ON_NODES, "doctor.python")
    if here and found.python != here:
        return note(
            f"{found.host} has Python {found.python}, the login node {here}.", "Name python or venv in the site."
        )
    return fine(f"{found.host} has Python {found.python}, as the login node.")


def tensorflow_there(diagnosis: Diagnosis) -> CheckResult:
    """Whether TensorFlow can be imported on the machine that will use it."""
    found = _known(diagnosis)
    if not found.tensorflow:
        lack = no_tensorflow(found.host, found.trouble)
        return wrong(lack.text, lack.hint, "doctor.tensorflow", *lack.remedies)
    return fine(f"TensorFlow {found.tensorflow} was imported on {found.host}.")


def temporary_there(diagnosis: Diagnosis) -> CheckResult:
    """Whether the node's folder for temporary files can be written: Clew takes another one, other programs may not."""
    found = _known(diagnosis)
    if not found.temporary:
        return fine(f"The folder for temporary files on {found.host} can be written.")
    text = f"The folder for temporary files on {found.host} cannot be written: {found.temporary}."
    hint = "Clew uses /dev/shm or /var/tmp there. TensorFlow and other programs may fail: set TMPDIR in the prologue."
    return note(text, hint)


def gpus_there(diagnosis: Diagnosis) -> CheckResult:
    """Whether TensorFlow sees the GPUs that were asked for."""
    found, asked = _known(diagnosis), diagnosis.site.allocation.gpus or 0
    names = listed([card.split(" (UUID")[0] for card in found.cards])
    if asked and found.devices < asked:
        given = f"the scheduler gave {found.gpus}, " if found.gpus else ""
        text = f"{asked} asked for; {given}TensorFlow sees {found.devices}{f' of: {names}' if names else ''}."
        return note(text, "Runs train on the processor. Is it a TensorFlow with CUDA, and does the module load CUDA?")
    if not asked:
        return fine(f"None asked for; TensorFlow sees {found.devices or 'none'}.")
    return fine(f"TensorFlow sees {found.devices}{f': {names}' if names else ''}.")


def clock_there(diagnosis: Diagnosis) -> CheckResult:
    """The node's clock; the answer was read at most a second or two after it was written."""
    return compared(_known(diagnosis).ahead + _POLL_S, "node", _LONGEST_POLL_S)


def login_there(diagnosis: Diagnosis) -> CheckResult:
    """Whether one may log in to the node while one has a job there."""
    host, refusal = _known(diagnosis).host, _known(diagnosis).no_login
    if refusal is None:
        return fine(f"{host} lets you in by SSH while your job runs there.")
    if (result := not_an_answer(host, refusal)) is not None:
        return result
    text = f"{host} does not let you in by SSH, not even while your job runs there{what_it_asks(refusal)}."
    return note(text, "Nothing needs fixing.")


def port_there(diagnosis: Diagnosis) -> CheckResult:
    """Whether the login node reaches a port of the node."""
    found = _known(diagnosis)
    if not found.port:
        first, last = diagnosis.site.ports or (0, 0)
        text = f"None of the ports {first} to {last} is free on {found.host}."
        return wrong(text, "Give a wider range as ports in the site, or none.", "doctor.ports")
    if found.reached:
        return fine(f"Port {found.port} of {found.host} was reached through the login node: that is the agent's route.")
    why = f" {found.refusal}" if found.refusal else ""
    return note(
        f"Port {found.port} of {found.host} was not reached.{why}",
        "Clew takes another route: see Forwarding and Nodes.",
    )
