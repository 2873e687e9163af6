"""The doctor without a network: in which order it looks, what hides what, and what it reads out of answers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clew_gui.doctor import examination, login, node_there
from clew_gui.doctor.checks import CHECKS, HERE, examine
from clew_gui.doctor.examination import (
    TOTAL_S,
    Check,
    CheckResult,
    Diagnosis,
    Finding,
    Questions,
    Verdict,
    fine,
    follow,
    note,
    wrong,
)
from clew_gui.doctor.home import compared, home, parse_quota, quota, shell
from clew_gui.doctor.node_there import temporary
from clew_gui.doctor.software import Available, consent, matching, near, parse_avail
from clew_gui.schedulers.pbs import first_node, most_gpus, parse_queues
from clew_gui.schedulers.slurm import first_node as first_node_of_slurm
from clew_gui.schedulers.slurm import parse_sinfo
from clew_gui.schedulers.state import Output
from clew_gui.sites.consent import consents, words_of
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteLayout
from clew_gui.ssh.config import SshHost
from clew_gui.ssh.connection import Hop
from clew_gui.ssh.prompts import NobodyToAsk, Prompt, Prompter, PromptKind
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.base.remedies import check_node, typed_sentence


@pytest.fixture
def diagnosis(tmp_path: Path) -> Diagnosis:
    return Diagnosis("mine", Site(host="login"), Places(tmp_path, tmp_path / "run"), NobodyToAsk(), threading.Event())


def is_fine(_: Diagnosis) -> CheckResult:
    return fine("Good.")


def is_wrong(_: Diagnosis) -> CheckResult:
    return wrong("Bad.", "Mend it.", "some.code")


def looked_at(findings: list[Finding]) -> dict[str, tuple[str, str]]:
    return {finding.check: (finding.verdict.value, finding.text) for finding in findings}


# --- The runner -------------------------------------------------------------------------------------------------------


def test_a_failure_hides_only_what_needs_it_and_the_first_cause_is_told(diagnosis: Diagnosis) -> None:
    checks = [
        Check("a", "A", is_wrong, "a is broken", ()),
        Check("b", "B", is_fine, "b is broken", ("a",)),
        Check("c", "C", is_fine, "", ("b",)),
        Check("d", "D", is_fine, "", ()),
    ]
    assert looked_at(list(follow(diagnosis, checks, False))) == {
        "a": ("bad", "Bad."),
        "b": ("skipped", "Not tried, because a is broken."),
        "c": ("skipped", "Not tried, because a is broken."),
        "d": ("ok", "Good."),
    }


def test_a_note_hides_nothing(diagnosis: Diagnosis) -> None:
    def is_odd(_: Diagnosis) -> CheckResult:
        return note("Odd.")

    checks = [Check("a", "A", is_odd, "", ()), Check("b", "B", is_fine, "", ("a",))]
    assert [finding.verdict for finding in follow(diagnosis, checks, False)] == [Verdict.WARN, Verdict.OK]


def test_a_refusal_is_a_finding_with_its_code(diagnosis: Diagnosis) -> None:
    def refuse(_: Diagnosis) -> CheckResult:
        raise problem("ssh.lost", "Gone.", "Again.")

    found = next(follow(diagnosis, [Check("a", "A", refuse, "", ())], False))
    assert (found.verdict, found.text, found.hint, found.code) == (Verdict.BAD, "Gone.", "Again.", "ssh.lost")


def test_what_wants_a_job_is_not_looked_at_without_one(diagnosis: Diagnosis) -> None:
    checks = [Check("a", "A", is_wrong, "", (), job=True)]
    assert next(follow(diagnosis, checks, False)).remedies == (check_node(diagnosis.name),)
    assert next(follow(diagnosis, checks, True)).verdict is Verdict.BAD


def test_it_ends_when_it_is_asked_to(diagnosis: Diagnosis) -> None:
    def stop(one: Diagnosis) -> CheckResult:
        one.stop.set()
        return fine("Good.")

    checks = [Check("a", "A", stop, "", ()), Check("b", "B", is_fine, "", ())]
    assert [finding.check for finding in follow(diagnosis, checks, False)] == ["a"]


def test_there_is_an_end_to_its_patience(diagnosis: Diagnosis) -> None:
    diagnosis.more_time(-TOTAL_S)
    assert "took too long" in next(follow(diagnosis, [Check("a", "A", is_fine, "", ())], False)).text


@pytest.mark.parametrize(("said", "left"), [(True, TOTAL_S), (False, TOTAL_S - 100.0)])
def test_an_approval_that_is_given_elsewhere_costs_no_time(
    diagnosis: Diagnosis, monkeypatch: pytest.MonkeyPatch, said: bool, left: float
) -> None:
    now = [time.monotonic()]
    for module in (login, examination):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    diagnosis.hops, diagnosis.questions.said = (Hop(host="login"),), said
    diagnosis.more_time(now[0] - diagnosis._started)

    def dial(*_: object) -> SimpleNamespace:
        now[0] += 100.0
        return SimpleNamespace(passed=(("student@login", "no proof asked"),), alive=True)

    monkeypatch.setattr(login, "dial", dial)
    assert "let you in" in next(one.text for one in login._dial(diagnosis) if one.check == "login")
    assert diagnosis.left_s == pytest.approx(left)


@pytest.mark.parametrize(("checks", "before"), [(CHECKS, {"login", "queue"}), (HERE, set())], ids=["site", "here"])
def test_each_check_needs_only_what_is_looked_at_before_it(checks: Sequence[Check[Any]], before: set[str]) -> None:
    known = set(before)
    for check in checks:
        assert set(check.needs) <= known, check.name
        known.add(check.name)
    assert len(known) == len(checks) + len(before), "two checks of one name"


def test_a_name_that_nobody_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("clew_gui.doctor.login.resolve", lambda name: SshHost(name=name))
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    places = Places(tmp_path, tmp_path / "run")
    found = list(examine("mine", Site(host="nowhere", user="me"), places, NobodyToAsk()))
    assert [finding.check for finding in found[:4]] == ["name", "port", "hostkey", "login"]
    assert (found[0].verdict, found[0].code) == (Verdict.BAD, "ssh.name")
    rest = {finding.text for finding in found[1:] if finding.check != "consent" and not finding.remedies}
    assert rest == {"Not tried, because the name of me@nowhere is not known."}


def test_questions_are_remembered_without_their_answers() -> None:
    class Person(Prompter):
        def ask(self, prompt: Prompt) -> str | None:
            return "yes"

    questions = Questions(Person())
    prompt = Prompt(kind=PromptKind.CONFIRM, title="me@login", text="The same?")
    assert questions.ask(prompt) == "yes"
    assert (questions.asked, questions.accepted) == ([prompt], [prompt])
    questions.quiet = True
    with pytest.raises(ProblemError):
        questions.ask(prompt)


# --- The home folder --------------------------------------------------------------------------------------------------


class Line:
    """Answers every command with the same."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def layout(self) -> SiteLayout:
        return SiteLayout("/home/me/clew")

    def run(self, command: tuple[str, ...]) -> Output:
        return self._output


def told(diagnosis: Diagnosis, look: Callable[[Diagnosis], CheckResult], output: Output) -> CheckResult:
    diagnosis._connection = Line(output)  # type: ignore[assignment]
    return look(diagnosis)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("head: write error: Disk quota exceeded", "site.quota"),
        ("mkdir: cannot create directory: No space left on device", "site.full"),
        ("mkdir: cannot create directory: Read-only file system", "site.folder"),
        ("mkdir: cannot create directory: Permission denied", "site.folder"),
        ("", "site.folder"),
    ],
)
def test_why_nothing_can_be_written(diagnosis: Diagnosis, said: str, code: str) -> None:
    found = told(diagnosis, home, Output(1, "", said))
    assert (found.verdict, found.code) == (Verdict.BAD, code)
    assert "/home/me/clew" in found.text


def test_room_that_is_left(diagnosis: Diagnosis) -> None:
    table = "Filesystem 1024-blocks Used Available Capacity Mounted on\nnfs:/h  4194304  {}  {}  1% /home/me\n"
    assert told(diagnosis, home, Output(0, table.format(24, 4194280))).verdict is Verdict.OK
    assert told(diagnosis, home, Output(0, table.format(4000000, 194304))).verdict is Verdict.WARN
    tight = told(diagnosis, home, Output(0, table.format(4194288, 16)))
    assert (tight.verdict, tight.code) == (Verdict.BAD, "site.full"), "no run can begin there"
    assert told(diagnosis, home, Output(0, "")).verdict is Verdict.OK


QUOTA = """Disk quotas for user me (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
nfs:/home {}  4500000 5000000             100       0       0
nfs:/other  10       0       0             100       0       0
"""


@pytest.mark.parametrize(
    ("used", "verdict"), [("1000000", Verdict.OK), ("4900000", Verdict.WARN), ("5000000*", Verdict.BAD)]
)
def test_a_quota(diagnosis: Diagnosis, used: str, verdict: Verdict) -> None:
    assert parse_quota(QUOTA.format(used))[0][2] == 5_120_000_000
    assert told(diagnosis, quota, Output(0, QUOTA.format(used))).verdict is verdict
    assert told(diagnosis, quota, Output(0, "")).verdict is Verdict.OK


def test_a_login_shell_that_never_comes(diagnosis: Diagnosis) -> None:
    assert told(diagnosis, shell, Output(-1, late=True)).verdict is Verdict.BAD
    assert "“Hi!” and 1 more" in told(diagnosis, shell, Output(0, "Hi!\n\nmail\n")).text


@pytest.mark.parametrize(
    ("ahead", "verdict", "words"),
    [(0.4, "ok", "agree"), (-3.0, "ok", "3 s behind"), (600.0, "warn", "600 s ahead of"), (-600.0, "warn", "behind")],
)
def test_clocks(ahead: float, verdict: str, words: str) -> None:
    found = compared(ahead, "node")
    assert (found.verdict.value, words in found.text) == (verdict, True)


# --- Partitions -------------------------------------------------------------------------------------------------------

SINFO = """debug*|1:00:00|3|gpu:fake:4|k80,xk|up
gpu|1-00:00:00|2|gpu:a100:4(S:0-1),nvme:1|a100|up
gpu|1-00:00:00|4|gpu:h100:8(S:0,1)|h100|up
old|infinite|1|(null)|(null)|drain
some greeting of the site
"""


def test_partitions_of_slurm() -> None:
    debug, gpu, old = parse_sinfo(SINFO)
    assert (debug.default, debug.seconds, debug.nodes, debug.gpus, debug.kinds) == (True, 3600, 3, 4, ("fake",))
    assert (gpu.default, gpu.seconds, gpu.nodes, gpu.gpus, gpu.kinds) == (False, 86400, 6, 8, ("a100", "h100"))
    assert gpu.features == ("a100", "h100")
    assert (old.seconds, old.gpus, old.features, old.up) == (None, 0, (), False)


QSTAT = """
server: head

Queue            Memory CPU Time Walltime Node  Run Que Lm State
---------------- ------ -------- -------- ----  --- --- -- -----
batch              --      --    24:00:00     8   3   0 --   E R
closed             --      --       --      --    0   0 --   D S
                                               ----- -----
                                                   3     0
"""


def test_queues_of_pbs() -> None:
    batch, closed = parse_queues(QSTAT)
    assert (batch.name, batch.seconds, batch.nodes, batch.up) == ("batch", 86400, 8, True)
    assert (closed.seconds, closed.nodes, closed.up) == (None, None, False)


@pytest.mark.parametrize(
    ("gres", "gpus", "kinds"),
    [
        ("gpu:2080Ti:8(S:0-1)", 8, ("2080Ti",)),
        ("gpu:ampere:6(S:0-1),gpu:1g.10gb:28(S:0-1)", 34, ("ampere", "1g.10gb")),
        ("gpu:a100:no_consume:4", 4, ("a100",)),
        ("gpu:4", 4, ()),
        ("gpu:4(IDX:0-3)", 4, ()),
        ("gpu", 1, ()),
        ("gpu:no_consume:2", 2, ()),
        ("gpu:rtx_a5000-24gb:2,nvme:1", 2, ("rtx_a5000-24gb",)),
        ("gpu:gh200:4,gpu:new form!", None, ("gh200",)),
        ("nvme:1,mps:100", 0, ()),
        ("(null)", 0, ()),
    ],
)
def test_the_gpus_of_a_node_are_counted_or_unknown_and_never_none_by_mistake(
    gres: str, gpus: int | None, kinds: tuple[str, ...]
) -> None:
    (found,) = parse_sinfo(f"gpu*|1-00:00:00|3|{gres}|(null)|up\n")
    assert (found.gpus, found.kinds, found.nodes) == (gpus, kinds, 3)
    both = parse_sinfo(f"p|1:00:00|3|gpu:2|(null)|up\np|1:00:00|1|{gres}|(null)|up\n")
    assert both[0].gpus == (None if gpus is None else max(2, gpus))
    assert parse_sinfo("p|1:00:00|3K|gpu:2|(null)|up\n")[0].nodes is None


def test_a_node_of_pbs() -> None:
    text = "n1\n     Mom = n1\n     state = down,offline\n     np = 16\n\nn2.example\n     state = free\n     np = 16\n"
    assert first_node(text) == "n2.example"
    assert first_node("n1\n     Mom = n1\n     state = job-exclusive\n") == "n1"
    assert first_node("pbsnodes: cannot connect to server\n") == ""


def test_a_node_of_slurm_that_answers_and_is_switched_on() -> None:
    assert first_node_of_slurm("n1 idle*\nn2 idle~\nn3 down\nn4 mix-\nn5 idle\n") == "n4"
    assert first_node_of_slurm("n1 idle*\nn2 alloc%\n") == ""


def test_gpus_of_pbs_nodes() -> None:
    assert most_gpus("n1\n     state = free\n     gpus = 4\nn2\n    resources_available.ngpus = 8\n") == 8
    assert most_gpus("n1\n     state = free\n     gpus = 0\n") == 0
    assert most_gpus("n1\n     state = free\n") is None, "a site may call them otherwise"


# --- Modules ----------------------------------------------------------------------------------------------------------

TCL = """/opt/site/modulefiles:
cuda/8.0
cuda/11.8(default)
python_ML/3.11
/usr/share/modules/modulefiles:
null

clew-default

"""
LMOD = """/apps/modulefiles/Core:
GCC/
GCC/12.2.0
GCC/13.1 (D)
TensorFlow/2.17-CUDA-12
/apps/modulefiles/Other:
TensorFlow/2.17-CUDA-12

clew-default
8.6.19
"""


def test_modules_of_both_kinds() -> None:
    tcl, lmod = parse_avail(TCL), parse_avail(LMOD)
    assert tcl.names == ("cuda/8.0", "cuda/11.8", "python_ML/3.11", "null")
    assert tcl.default == {"cuda/11.8"}
    assert lmod.names == ("GCC/12.2.0", "GCC/13.1", "TensorFlow/2.17-CUDA-12")
    assert lmod.default == {"GCC/13.1"}


def test_modules_are_searched_whatever_the_case() -> None:
    lmod = parse_avail(LMOD)
    assert matching(lmod, "tensor") == ("TensorFlow/2.17-CUDA-12",)
    assert matching(lmod, "gcc/1?.1") == ("GCC/13.1",)
    assert matching(lmod, "g*2.0") == ("GCC/12.2.0",)
    assert matching(lmod, "") == lmod.names
    assert matching(lmod, "[") == ()


def test_what_somebody_may_have_meant() -> None:
    there = Available(("TensorFlow/2.17", "cuda/11.8", "python_ML/3.11"))
    assert near("tensorflow/2.16", there) == ("TensorFlow/2.17",)
    assert near("python-ml", there) == ("python_ML/3.11",)
    assert near("gromacs", there) == ()


# --- What needs consent -----------------------------------------------------------------------------------------------


def test_own_lines_need_consent_before_they_are_run(diagnosis: Diagnosis) -> None:
    diagnosis.site = Site(host="login", prologue="source /apps/lab.sh\n")
    found = consent(diagnosis)
    assert (found.verdict, found.code) == (Verdict.BAD, "site.consent")
    assert typed_sentence(found.remedies) == "Type: clew site show mine --consent"
    consents(diagnosis.places).give(words_of(diagnosis.site))
    assert consent(diagnosis).verdict is Verdict.OK


def test_a_way_that_is_a_command_needs_consent_before_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = SshHost(name="login", proxy_command="nc %h %p")
    monkeypatch.setattr("clew_gui.doctor.login.resolve", lambda _: entry)
    monkeypatch.setattr("clew_gui.doctor.login.dial", lambda *_: pytest.fail("it was dialled"))
    found = list(examine("mine", Site(host="login"), Places(tmp_path, tmp_path / "run"), NobodyToAsk()))
    assert (found[0].check, found[0].verdict, "nc %h %p" in found[0].text) == ("way", Verdict.BAD, True)
    assert looked_at(found)["shell"] == ("skipped", "Not tried, because the way there needs your consent.")


# --- Where on the way a login failed ----------------------------------------------------------------------------------

WAY = (Hop(host="gate", user="me"), Hop(host="login", user="me", keys=("~/.ssh/lab",)))


@pytest.mark.parametrize(
    ("found", "where", "step"),
    [
        (Problem("ssh.hostkey.changed", "", where="me@gate"), "me@gate", "hostkey"),
        (Problem("ssh.password", "", where="me@login"), "me@login", "login"),
        (Problem("ssh.forwarding", "", where="me@gate"), "me@login", "port"),
        (Problem("ssh.connect", "me@gate cannot reach it: refused", where="login:22"), "me@login", "port"),
        (Problem("ssh.connect", "Name or service not known", where="login:22"), "me@login", "name"),
        (Problem("ssh.key.ppk", "", where="~/.ssh/lab"), "me@login", "login"),
        (Problem("ssh.reach", "", where="me@gate"), "me@gate", "hostkey"),
        (Problem("ssh.incompatible", "", where="nowhere"), "me@gate", "login"),
    ],
)
def test_a_failed_login_is_told_of_the_right_hop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Problem, where: str, step: str
) -> None:
    def fail(*_: object) -> None:
        raise ProblemError(found)

    monkeypatch.setattr("clew_gui.doctor.login.way_to", lambda *_: WAY)
    monkeypatch.setattr("clew_gui.doctor.login.dial", fail)
    monkeypatch.setattr("clew_gui.doctor.login.check_name", lambda _: fine("Known."))
    monkeypatch.setattr("clew_gui.doctor.login.check_port", lambda _: fine("Answers."))
    told_of = list(examine("mine", Site(host="login"), Places(tmp_path, tmp_path / "run"), NobodyToAsk()))
    bad = [(one.where, one.check) for one in told_of if one.verdict is Verdict.BAD]
    assert bad == [(where, step)]
    steps = [(one.where, one.check) for one in told_of if one.where]
    assert steps == [(hop.title, name) for hop in WAY for name in ("name", "port", "hostkey", "login")]
    after = [one.verdict for one in told_of[steps.index((where, step)) + 1 :] if one.where]
    assert set(after) <= {Verdict.SKIPPED}


def test_a_lost_connection_is_told_once(diagnosis: Diagnosis) -> None:
    def lost(_: Diagnosis) -> CheckResult:
        raise problem("ssh.lost", "Gone.")

    checks = [Check("a", "A", lost, "", ("login",)), Check("b", "B", is_fine, "", ("login",))]
    assert looked_at(list(follow(diagnosis, checks, False)))["b"] == (
        "skipped",
        "Not tried, because the connection was lost.",
    )


@pytest.mark.unix("a node of a site")
def test_a_node_whose_temporary_folder_cannot_be_written_is_named_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert temporary() == ""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / f".clew-doctor-{os.getpid()}").mkdir()
    assert temporary() == f"{tmp_path}: Is a directory"


@pytest.mark.unix("a node of a site")
def test_an_import_of_tensorflow_is_waited_for_while_it_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_there, "LOOK_S", 0.05)
    monkeypatch.setattr(node_there, "STILL_S", 0.5)
    python, moves = tmp_path / "python", list[None]()
    python.write_text("#!/bin/sh\nfor i in $(seq 1000000); do :; done\necho clew 2.19.0 2\n")
    python.chmod(0o755)
    found = node_there.tensorflow(str(python), moves=lambda: moves.append(None))
    assert found == {"tensorflow": "2.19.0", "devices": 2}
    assert moves
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    assert node_there.tensorflow(str(python))["trouble"] == "nothing of its import moved for 0 s"


@pytest.mark.unix("a node of a site")
def test_the_doctors_job_answers_in_full_while_its_port_still_waits_for_a_call(tmp_path: Path) -> None:
    """As where nobody can reach the port."""
    program = str(files("clew_gui.doctor").joinpath("node_there.py"))
    python, answer = Path(sys.base_prefix) / "bin/python3", tmp_path / "answer.json"
    with subprocess.Popen([python, "-I", program, "0", "0"], cwd=tmp_path) as job:
        while not answer.exists() or "whole" not in (told := json.loads(answer.read_text())):
            assert job.poll() is None
            time.sleep(0.02)
        with socket.create_connection(("127.0.0.1", told["port"])) as call:
            assert call.recv(9) == b"clew\n"
    assert job.returncode == 0
