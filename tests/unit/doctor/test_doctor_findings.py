"""Each way in which the doctor calls a site bad: its code, the sentence that names what is at fault, how to mend it.

This computer is the login node and the node, with real shells, Python and sockets. Only the scheduler's programs are
made up.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, NoReturn, cast

import msgspec
import pytest

from clew_gui.deploy.probe import Probe
from clew_gui.doctor import node_job
from clew_gui.doctor.checks import CHECKS
from clew_gui.doctor.examination import TOTAL_S, Diagnosis, Finding, NodeAnswer, Questions, Verdict, follow, listed
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.sites.presets import PRESETS
from clew_gui.sites.site import Site
from clew_gui.ssh.connection import Command, Connection, Finished, Hop, shell_line
from clew_gui.ssh.host_keys import question
from clew_gui.ssh.prompts import NobodyToAsk, Prompt, PromptKind
from clew_shared.base.places import Places
from clew_shared.base.problem import problem
from clew_shared.catalogue import load_builtin
from tests.local_stream import LocalStream

pytestmark = pytest.mark.unix("a site's own shell")

SLURM, DAVIDE = PRESETS["slurm"], PRESETS["davide"]
NO_MODULES = "unset -f module; function . { return 1; }; echo Welcome"
"""A profile after which neither a module command nor the files that would bring it are there."""
SINFO = "printf '%s\\n' 'short*|30:00|3|gpu:a100:4|(null)|up' 'long|1-00:00:00|2|gpu:h100:8|(null)|up'"
ACCOUNTS = "printf '%s\\n' course lab course"
AWAY = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
JOB = "4711|{}|{}|node1|N/A|N/A|5:00|1|clew"
RUNS = {"squeue": f"echo '{JOB.format('RUNNING', 'None')}'", "scancel": ":"}
TAKEN = "bash ./job.sh >scheduler.log 2>&1; echo 4711"
NO_CUDA = "echo 'raise ImportError(\"libcudart.so.12: cannot open shared object file\")' >tensorflow.py"
ENDED = "echo state=ended >record.4711; echo 4711"


class Here:
    """A connection to this computer: each command is run, with a home folder and a PATH of its own."""

    passed = ()
    alive = True
    asks_codes = False

    def __init__(self, home: Path, path: str) -> None:
        self._environment = os.environ | {"HOME": str(home), "XDG_DATA_HOME": "", "PATH": path}
        self._environment.pop("BASH_ENV", None)

    def run(self, command: Command, *, stdin: bytes = b"", timeout: float = 30.0) -> Finished:
        """As a login node: its superuser's rights to read everything are not there."""
        words = [*_powerless(), "/bin/sh", "-c", shell_line(command)]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            words, env=self._environment, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        ) as process:
            try:
                out, err = process.communicate(stdin, timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise problem("ssh.timeout", "No answer.") from None
        return Finished(process.returncode, out, err)

    def open(self, command: Command, timeout: float = 30.0) -> LocalStream:
        return LocalStream([*_powerless(), "/bin/sh", "-c", shell_line(command)], self._environment)

    def write(self, path: str, data: bytes, *, mode: int, offset: int, timeout: float) -> None:
        Path(path).write_bytes(data)
        Path(path).chmod(mode)

    def hop(self, hop: Hop, timeout: float) -> NoReturn:
        raise problem("ssh.forwarding", "It passes nothing on.")

    def probe(self, timeout: float) -> bool:
        return True

    def close(self) -> None:
        """There is nothing to hang up."""


def _powerless() -> tuple[str, ...]:
    """What stands before a command so that root, too, is refused what modes forbid."""
    setpriv = shutil.which("setpriv") or "setpriv"
    return (setpriv, "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


class Case(NamedTuple):
    """An ill site. ``code`` and ``names``: what its finding says; ``{port}`` is a port that is taken meanwhile.

    ``programs`` are lines of shell by the names of commands, ``prepare`` is run in the home folder, ``before`` are
    checks that must find nothing wrong, ``probed`` is what is otherwise with the site's Python. ``bare``: no other
    commands are there. ``busy``: the doctor's time is nearly up. ``held``: the site's only port is taken.
    ``mended``: what of the site is otherwise when somebody did what the hint says.
    """

    check: str
    site: Site
    code: str
    names: tuple[str, ...]
    programs: Mapping[str, str] = MappingProxyType({})
    prepare: str = ":"
    before: tuple[str, ...] = ()
    python: str = sys.executable
    probed: Mapping[str, object] = MappingProxyType({})
    bare: bool = False
    busy: bool = False
    held: bool = False
    mended: Mapping[str, object] | None = None


def asks(site: Site, **asked: object) -> Site:
    """``site`` with another allocation."""
    return msgspec.structs.replace(site, allocation=msgspec.structs.replace(site.allocation, **asked))


COURSE = msgspec.structs.replace(SLURM, data="~/course")
PLAIN = msgspec.structs.replace(SLURM, allocation=AllocationRequest())

CASES = {
    "data that are not there": Case("data", COURSE, "site.data", ("~/course", "not there"), mended={"data": ""}),
    "data that may not be read": Case(
        "data", COURSE, "site.data", ("~/course", "cannot be read"), prepare="mkdir -m 0 course", mended={"data": ""}
    ),
    "data that cannot be listed": Case(
        "data",
        COURSE,
        "site.data",
        ("~/course", "Stale file handle"),
        {"ls": "echo 'ls: reading directory: Stale file handle' >&2; exit 2"},
        prepare="mkdir course",
        mended={"data": ""},
    ),
    "ports that are taken": Case(
        "ports", SLURM, "site.ports", ("{port}", "login node"), held=True, mended={"ports": ()}
    ),
    "ports that are taken where there are no nodes": Case(
        "ports", PRESETS["ssh"], "site.ports", ("{port}", "on the host"), held=True, mended={"ports": ()}
    ),
    "no Slurm": Case("scheduler", DAVIDE, "scheduler.command", ("Slurm", "squeue"), bare=True),
    "no PBS": Case("scheduler", PRESETS["bluewaters"], "scheduler.command", ("PBS", "qstat"), bare=True),
    "no mnsubmit": Case("scheduler", PRESETS["minotauro"], "scheduler.command", ("mnsubmit", "mnq"), bare=True),
    "Slurm is away": Case(
        "scheduler", DAVIDE, "scheduler.silent", ("Slurm", "Unable to contact slurm controller"), {"squeue": AWAY}
    ),
    "Slurm says nothing at all": Case(
        "scheduler", DAVIDE, "scheduler.silent", ("Slurm does not answer",), {"squeue": "exec sleep 60"}, busy=True
    ),
    "time over the partition's limit": Case(
        "time",
        asks(DAVIDE, partition="short"),
        "scheduler.time",
        ("1 hour", "short", "30 minutes"),
        {"sinfo": SINFO},
        before=("partition",),
        mended={"allocation": AllocationRequest(partition="long", time="01:00:00")},
    ),
    "a partition that is not there": Case(
        "partition",
        asks(DAVIDE, partition="lnog"),
        "scheduler.partition",
        ("no partition 'lnog'",),
        {"sinfo": SINFO},
        mended={"allocation": AllocationRequest(partition="long")},
    ),
    "time over the default partition's limit": Case(
        "time",
        asks(SLURM, time="2-00:00:00"),
        "scheduler.time",
        ("2 days", "short", "30 minutes"),
        {"sinfo": SINFO},
        before=("partition",),
        mended={"allocation": AllocationRequest(time="00:30:00")},
    ),
    "a kind of GPU that is not there": Case(
        "gpus",
        DAVIDE,
        "scheduler.gres",
        ("gpu:tesla", "short", "a100"),
        {"sinfo": SINFO},
        before=("partition",),
        mended={"gres": "gpu:a100"},
    ),
    "an account of others": Case(
        "account",
        asks(SLURM, account="wrong"),
        "scheduler.account",
        ("wrong",),
        {"sacctmgr": ACCOUNTS},
        mended={"allocation": AllocationRequest(account="lab")},
    ),
    "no module command": Case(
        "modules",
        PRESETS["minotauro"],
        "modules.absent",
        ("module command", "K80, cuda, mkl, CUDNN, python_ML"),
        prepare=f"echo '{NO_MODULES}' >.bash_profile",
        mended={"modules": ()},
    ),
    "a Python for which there are no packages": Case(
        "packages",
        PLAIN,
        "bootstrap.packages",
        ("Python", "3.99.0", "lacks msgspec", "has no pip"),
        probed={"python": "3.99.0", "missing": ("msgspec",), "packages": "packages-1"},
    ),
    "a job that may have been taken": Case(
        "node", PLAIN, "doctor.job", ("doctor's job", "accepted"), {"sbatch": ":", "squeue": ":"}
    ),
    "a job that never starts": Case(
        "node",
        PLAIN,
        "doctor.blocked",
        ("doctor's job", "partition is switched off"),
        {"sbatch": "echo 4711", "squeue": f"echo '{JOB.format('PENDING', 'PartitionInactive')}'", "scancel": ":"},
    ),
    "a job that gives no answer": Case(
        "node",
        PLAIN,
        "doctor.node",
        ("no answer", "Stale file handle"),
        {**RUNS, "sbatch": f"echo 'Stale file handle' >job.log; {ENDED}"},
    ),
    "a job that leaves no word": Case(
        "node", PLAIN, "doctor.node", ("no answer", "nothing that can be seen from here"), {**RUNS, "sbatch": ENDED}
    ),
    "no Python on the node": Case(
        "node.python",
        PLAIN,
        "doctor.python",
        ("/nowhere/python", platform.node()),
        {**RUNS, "sbatch": TAKEN},
        before=("node",),
        python="/nowhere/python",
    ),
    "no TensorFlow on the node": Case(
        "node.tensorflow",
        PLAIN,
        "doctor.tensorflow",
        ("TensorFlow", socket.gethostname(), "libcudart.so.12"),
        {**RUNS, "sbatch": f"{NO_CUDA}; {TAKEN}"},
        before=("node", "node.python"),
        held=True,
    ),
    "ports that are taken on the node": Case(
        "node.port",
        PLAIN,
        "doctor.ports",
        ("{port}", socket.gethostname()),
        {**RUNS, "sbatch": f"{NO_CUDA}; {TAKEN}"},
        before=("node", "node.python"),
        held=True,
    ),
}


@contextmanager
def taken_port() -> Iterator[int]:
    """A port that something else listens on."""
    with closing(socket.socket()) as sock:
        sock.bind(("", 0))
        sock.listen(1)
        yield sock.getsockname()[1]


def this_python(executable: str) -> Probe:
    return Probe(
        python=".".join(map(str, sys.version_info[:3])),
        executable=executable,
        implementation="CPython",
        system="Linux",
        machine="x86_64",
        libc=(2, 36),
        path="",
        have={},
        missing=(),
        packages="",
        states={},
        pip="",
        free=-1,
    )


class Clinic:
    """Examines each case once; the finding serves several tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, tuple[Finding, int]] = {}

    def finding(self, name: str) -> tuple[Finding, int]:
        """What the case's check tells, and which port was taken meanwhile."""
        if name not in self._seen:
            with taken_port() as port:
                self._seen[name] = self.look(CASES[name], port), port
        return self._seen[name]

    def mended(self, name: str) -> Finding:
        """What it tells when somebody did what the hint says, and nothing else changed."""
        case = CASES[name]
        with taken_port() as port:
            site = self._site(case, port)
            changed = msgspec.structs.replace(site, **(case.mended or {}))
            return self.look(case._replace(site=changed, held=False), port)

    def look(self, case: Case, port: int) -> Finding:
        with self.diagnosis(case, port) as diagnosis:
            return _examined(diagnosis, case)

    @contextmanager
    def diagnosis(self, case: Case, port: int) -> Iterator[Diagnosis]:
        """Logged in to a host with the case's programs."""
        folder = self._folder / str(len(list(self._folder.iterdir())))
        home, programs = folder / "home", folder / "programs"
        home.mkdir(parents=True)
        programs.mkdir()
        for name, line in case.programs.items():
            (programs / name).write_text(f"#!/bin/sh\n{line}\n")
            (programs / name).chmod(0o755)
        for name in ("env", "sh"):
            (programs / name).symlink_to(str(shutil.which(name)))
        path = str(programs) if case.bare else f"{programs}:{os.environ['PATH']}"
        subprocess.run(["/bin/sh", "-c", case.prepare], cwd=home, check=True)
        places = Places(folder, folder / "run")
        diagnosis = Diagnosis("mine", self._site(case, port), places, NobodyToAsk(), threading.Event())
        diagnosis.arrive(cast("Connection", Here(home, path)))
        with closing(diagnosis):
            yield diagnosis

    def _site(self, case: Case, port: int) -> Site:
        return msgspec.structs.replace(case.site, ports=(port, port)) if case.held else case.site


def _examined(diagnosis: Diagnosis, case: Case) -> Finding:
    known = {check.name: check for check in CHECKS}
    diagnosis.hops = (Hop(host="login", user="me"),)
    diagnosis.probed = msgspec.structs.replace(this_python(case.python), **case.probed)
    if case.busy:
        diagnosis.more_time(2.0 - TOTAL_S)
    names = (*case.before, case.check)
    first, *rest = (known[name]._replace(needs=()) for name in names)
    *before, found = follow(diagnosis, [first, *rest], want_job=True)
    assert [one.verdict for one in before] == [Verdict.OK] * len(before), before
    assert found.check == case.check
    return found


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")  # the laptop is not on the internet
        yield Clinic(tmp_path_factory.mktemp("clinic"))


@pytest.mark.parametrize("name", CASES)
def test_it_is_bad_and_the_sentence_names_what_is_at_fault(clinic: Clinic, name: str) -> None:
    found, port = clinic.finding(name)
    assert (found.verdict, found.code) == (Verdict.BAD, CASES[name].code), found
    assert [word for word in CASES[name].names if word.format(port=port) not in found.text] == [], found.text


@pytest.mark.parametrize("name", CASES)
def test_it_says_what_to_do_now(clinic: Clinic, name: str) -> None:
    found, _ = clinic.finding(name)
    assert found.hint.strip()
    assert found.hint not in found.text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("data that are not there", "Correct data in the site, or leave it out"),
        ("data that may not be read", "Ask their owner"),
        ("ports that are taken", "another range as ports"),
        ("no Slurm", "Is this the login node"),
        ("Slurm is away", "Jobs that run go on"),
        ("a partition that is not there", "There are: short, long."),
        ("time over the partition's limit", "choose another partition: long."),
        ("time over the default partition's limit", "Ask for at most 30 minutes, or"),
        ("a kind of GPU that is not there", 'Write gres = "gpu:a100" in the site'),
        ("an account of others", "Yours are: course, lab."),
        ("a Python for which there are no packages", "-m pip install 'msgspec>=0.20'"),
        ("no module command", "Remove them from the site"),
        ("a job that may have been taken", "Try again"),
        ("a job that never starts", "taken out of the queue"),
        ("a job that gives no answer", "Name a folder as scratch"),
        ("no Python on the node", "Name a python or venv"),
        ("no TensorFlow on the node", "lack a library"),
        ("ports that are taken on the node", "a wider range as ports"),
    ],
)
def test_what_to_do_fits_what_was_found(clinic: Clinic, name: str, words: str) -> None:
    assert words in clinic.finding(name)[0].hint


def test_the_partitions_that_are_there_are_offered(clinic: Clinic) -> None:
    ways = clinic.finding("a partition that is not there")[0].remedies
    assert [(way.what, way.value) for way in ways] == [("partition", "long"), ("partition", "short")], (
        "the nearest first"
    )


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.mended is not None])
def test_who_does_what_the_hint_says_is_rid_of_it(clinic: Clinic, name: str) -> None:
    """Otherwise the check might call every such site bad."""
    assert clinic.mended(name).verdict is Verdict.OK


def key_not_known(diagnosis: Diagnosis, hop: Hop) -> None:
    """As a login does at the first sight of a server."""
    diagnosis.asker.ask(question(hop, "ssh-ed25519", "SHA256:abc"))


def password_wanted(diagnosis: Diagnosis, hop: Hop) -> None:
    diagnosis.asker.ask(Prompt(kind=PromptKind.PASSWORD, title=hop.title, text="Password:"))


def not_let_in(_diagnosis: Diagnosis, hop: Hop) -> None:
    raise problem("ssh.auth", f"{hop.title} lets nobody in.")


def nothing_listens(_diagnosis: Diagnosis, hop: Hop) -> None:
    raise problem("ssh.connect", f"login cannot reach {hop.host}, port 22: Connection refused.")


LOGINS: Mapping[Callable[[Diagnosis, Hop], None], tuple[Verdict, str]] = {
    key_not_known: (
        Verdict.OK,
        (
            "node1 has an SSH server whose key is not known here yet, so nobody has tried whether it lets you in. "
            "When Clew needs that way you are asked: “The server at node1 has not been seen from here before. "
            "Its ssh-ed25519 key has the fingerprint: SHA256:abc. "
            "Compare it with the one that the site publishes. Is it the same?”"
        ),
    ),
    password_wanted: (
        Verdict.WARN,
        "node1 does not let you in by SSH, not even while your job runs there: it asks for a password.",
    ),
    not_let_in: (Verdict.WARN, "node1 does not let you in by SSH, not even while your job runs there."),
    nothing_listens: (
        Verdict.WARN,
        "node1 cannot be reached by SSH: login cannot reach node1, port 22: Connection refused.",
    ),
}


@pytest.mark.parametrize("refuse", LOGINS)
def test_that_a_node_lets_nobody_in_is_said_only_where_it_was_tried(
    clinic: Clinic, refuse: Callable[[Diagnosis, Hop], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case("node.login", PLAIN, "", ())
    with clinic.diagnosis(case, 0) as diagnosis:
        monkeypatch.setattr(Here, "hop", lambda _self, hop, _timeout: refuse(diagnosis, hop))
        diagnosis.hops = (Hop(host="login", user="me"),)
        diagnosis.node = NodeAnswer(host="node1", **node_job.call_node(diagnosis, NodeAnswer(host="node1")))
        found = _examined(diagnosis, case)
    assert (found.verdict, found.text) == LOGINS[refuse]


@pytest.mark.parametrize(
    ("probed", "mnist", "digits"),
    [
        ({"sets": {"mnist": "/opt/data/mnist.npz"}}, "found in /opt/data/mnist.npz", "come with the agent"),
        ({"searched": ("/a", "/b"), "digits": "/x"}, "not found in /a, /b", "come with the agent"),
    ],
)
def test_which_exercises_find_their_data_there(
    clinic: Clinic, probed: Mapping[str, object], mnist: str, digits: str
) -> None:
    found = clinic.look(Case("data", PLAIN, "", (), probed=probed), 0)
    assert found.verdict is Verdict.OK
    known = load_builtin().exercises
    sets = {name: [card.id for card in known if name in card.datasets] for name in ("mnist", "digits")}
    words = {name: f"{name} ({listed(ids)})" for name, ids in sets.items()}
    assert words["mnist"].startswith("mnist (softmax, cnn")
    assert found.text.endswith(f" {words['mnist']}: {mnist}. {words['digits']}: {digits}.")


@pytest.mark.parametrize(("there", "verdict"), [("/opt/sklearn/digits.csv.gz", Verdict.OK), ("", Verdict.WARN)])
def test_digits_that_the_laptop_cannot_bring_are_the_sites(
    clinic: Clinic, there: str, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_gui.doctor.software.packaged_file", lambda _: None)
    found = clinic.look(Case("data", PLAIN, "", (), probed={"sets": {"mnist": "/m"}, "digits": there}), 0)
    assert (found.verdict, "come with scikit-learn there" in found.text) == (verdict, bool(there))
    assert bool(found.hint) is not bool(there)


def test_a_job_that_only_waits_makes_no_site_bad(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long queue is no illness, and what nobody could look at is not out of order."""
    monkeypatch.setattr("clew_gui.doctor.node_job.WAIT_S", 0.3)
    waiting = {"sbatch": "echo 4711", "squeue": f"echo '{JOB.format('PENDING', 'Priority')}'", "scancel": ":"}
    checks = [check._replace(needs=()) if check.name == "node" else check for check in CHECKS]
    with clinic.diagnosis(Case("node", PLAIN, "", (), waiting), 0) as diagnosis:
        node, *others = follow(diagnosis, [check for check in checks if check.name.partition(".")[0] == "node"], True)
    assert (node.verdict, "still waits" in node.text) == (Verdict.WARN, True), node
    assert len(others) == 7
    for other in others:
        assert (other.verdict, other.text) == (Verdict.SKIPPED, "Not tried, because the doctor's job did not begin.")


def test_a_node_that_does_not_share_the_home_is_waited_for_with_a_word_and_not_for_long(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Listener(NobodyToAsk):
        def show_message(self, text: str) -> None:
            said.append(text)

    said: list[str] = []
    monkeypatch.setattr(node_job, "SAID_S", 0.0)
    monkeypatch.setattr(node_job, "LATE_S", 0.5)
    monkeypatch.setattr(node_job, "_LONGEST_POLL_S", 0.1)
    ended = {**RUNS, "sbatch": "echo 4711", "squeue": f"echo '{JOB.format('COMPLETED', 'None')}'"}
    with clinic.diagnosis(Case("node", PLAIN, "", (), ended), 0) as diagnosis:
        diagnosis.questions = Questions(Listener())
        giving_up = threading.Timer(30.0, diagnosis.stop.set)
        giving_up.start()
        told = node_job.node(diagnosis)
        giving_up.cancel()
        assert not diagnosis.stop.is_set(), "the scheduler says that it is over, and nothing was written"
    assert (told.verdict, told.code) == (Verdict.BAD, "doctor.node")
    (word,) = said
    assert word.startswith("The doctor's job has begun and has not answered yet. It writes its answer into ")


def test_no_two_of_them_read_alike(clinic: Clinic) -> None:
    """One sentence for one fault; a hint serves only faults of one code."""
    found = {name: clinic.finding(name) for name in CASES}
    texts = {name: one.text.replace(str(port), "PORT") for name, (one, port) in found.items()}
    assert {name for name, text in texts.items() if list(texts.values()).count(text) > 1} == set()
    codes: dict[str, set[str]] = {}
    for one, _ in found.values():
        codes.setdefault(one.hint, set()).add(one.code)
    assert {hint: of for hint, of in codes.items() if len(of) > 1} == {}
