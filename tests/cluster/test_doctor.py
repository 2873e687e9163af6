"""The doctor on the mini cluster: what it finds where all is well, and the sentence that each fault gets."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from clew_gui.doctor.checks import examine
from clew_gui.doctor.examination import Finding, Verdict, listed
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.job import JobRef
from clew_gui.schedulers.registry import scheduler_of
from clew_gui.schedulers.scheduler import environment
from clew_gui.schedulers.state import Output
from clew_gui.sites.site import Site
from clew_gui.sites.site_file import read_site
from clew_gui.ssh.prompts import NobodyToAsk, Prompt, Prompter, PromptKind
from clew_shared.base.places import Places
from clew_shared.catalogue import load_builtin
from tests.cluster.journey import end_logins
from tests.cluster.mini import LIMIT_S, MiniCluster
from tests.integration.agents import wait_for

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(600)]

NEEDS = {"name", "port", "hostkey", "login", "quota", "python", "modules", "tensorflow", "devices", "data", "scheduler"}
NEEDS |= {"partition", "ports", "clock"}
ORDER = ["name", "port", "hostkey", "login", "ssh", "shell", "home", "quota", "clock", "consent", "modules", "python"]
ORDER += ["tensorflow", "packages", "devices", "data", "scheduler", "partition", "time", "gpus", "account", "request"]
ORDER += ["ports", "forwarding", "nodes", "node", "node.python", "node.tensorflow", "node.gpus"]
ORDER += ["node.temporary", "node.clock"]
ORDER += ["node.login", "node.port"]
"""Each hop from the laptop on, then what runs need: nothing is looked at before what it stands on."""
PAGE = Path(__file__).parents[2] / "docs/sites.md"
SITES = ("minicluster", "minicluster-bw", "minicluster-mn", "minicluster-otp", "minicluster-pbs", "minicluster-ssh")
CLEW = (sys.executable, "-m", "clew_gui")
ASKPASS = Path(__file__).with_name("askpass")


def clew(cluster: MiniCluster, home: Path, *words: str, code: int = 0, **answers: str) -> str:
    """``clew`` as somebody on the laptop types it; what it printed."""
    given = {"CLEW_HOME": str(home), **answers}
    set_ = [f"{name}={value}" for name, value in given.items()]
    done = cluster.call("on", "laptop", "env", *set_, *CLEW, *words, limit_s=280.0)
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# --- Where all is well ------------------------------------------------------------------------------------------------


def test_the_laptop_knows_six_sites(cluster: MiniCluster, tmp_path: Path) -> None:
    known = json.loads(clew(cluster, tmp_path, "site", "list", "--json"))
    assert [site["name"] for site in known["sites"]] == ["local", *SITES]
    assert all("problems" not in site for site in known["sites"])


def test_nothing_is_wrong_with_any_of_them(cluster: MiniCluster, tmp_path: Path) -> None:
    """All at the same time: a lesson begins."""
    user = cluster.info()["users"]["student"]
    asked = {"SSH_ASKPASS": str(ASKPASS), "SSH_ASKPASS_REQUIRE": "force", "ASKPASS_PASSWORD": user["password"]}
    asked["ASKPASS_CODE"] = cluster("code")

    def look(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(clew(cluster, tmp_path / name, "site", "doctor", name, "--json", **asked))
        return found

    with ThreadPoolExecutor(len(SITES)) as pool:
        told = dict(zip(SITES, pool.map(look, SITES), strict=True))
    assert clew(cluster, tmp_path / "minicluster-otp", "logout").startswith("Logged out of student@login.")
    for name, found in told.items():
        assert (found["site"], found["ok"], found["ended"], found["format"]) == (name, True, True, 1)
        verdicts = {one["check"]: one["verdict"] for one in found["findings"]}
        assert [one for one in found["findings"] if one["verdict"] in ("bad", "warn")] == []
        assert {"login", "home", "modules", "python", "tensorflow", "scheduler", "forwarding"} <= verdicts.keys()
    found = told["minicluster"]["findings"]
    assert [one["check"] for one in found] == ORDER
    assert {one["check"] for one in found if one["verdict"] == "ok"} >= NEEDS
    texts = {name: {one["check"]: one["text"] for one in found["findings"]} for name, found in told.items()}
    assert "password and one-time code" in texts["minicluster-otp"]["login"]
    assert "debug, short, gpu, training" in texts["minicluster-mn"]["partition"]
    assert "debug, short, gpu, training" in texts["minicluster-pbs"]["partition"]
    assert "no scheduler" in texts["minicluster-ssh"]["scheduler"]
    assert re.search(r"On /home/student .+ of your 4\.3 GB are used\.", texts["minicluster"]["quota"])
    names = [card.id for card in load_builtin().exercises if "digits" in card.datasets]
    digits = f"digits ({listed(names)}): come with the agent."
    assert [name for name in SITES if not texts[name]["data"].endswith(digits)] == []
    hops = [one["where"] for one in told["minicluster-ssh"]["findings"] if one["check"] == "login"]
    assert hops == ["student@login", "student@node1"]


def test_the_page_names_the_checks_in_their_order() -> None:
    table = PAGE.read_text().partition("| check | looked at |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.strip().splitlines()[1:]]
    assert [name for row in rows for name in re.findall("`(.+?)`", row)] == ["way", *ORDER]


def test_a_job_tells_what_the_node_has_and_leaves_nothing(cluster: MiniCluster, tmp_path: Path) -> None:
    jobs = "mkdir -p ~/.local/share/clew/jobs && ls ~/.local/share/clew/jobs"
    before = cluster.on("login", jobs)  # other tests' jobs, where they share the cluster
    text = clew(cluster, tmp_path, "site", "doctor", "minicluster", "--job")
    assert re.search(r"Node +The doctor's job ran on node\d", text)
    assert re.search(r"TensorFlow there +TensorFlow 2\.\d+\.\d+ was imported on node\d", text)
    assert re.search(r"Port there +Port \d+ of node\d was reached through the login node", text)
    assert text.endswith("Nothing keeps runs from working there.\n")
    assert cluster.on("login", jobs) == before
    assert cluster.on("login", "squeue --noheader --states=running,pending") == ""


def test_a_server_with_no_cipher_in_common_is_refused_with_what_to_do(cluster: MiniCluster, tmp_path: Path) -> None:
    with cluster.broken("chacha-only"):
        text = clew(cluster, tmp_path, "site", "doctor", "minicluster", code=1)
    assert "the server offers chacha20-poly1305@openssh.com" in text
    assert "Ask the site for another login node" in text


def test_a_host_of_the_ssh_configuration_becomes_a_site_with_the_scheduler_that_it_has(
    cluster: MiniCluster, tmp_path: Path
) -> None:
    text = clew(cluster, tmp_path, "site", "add", "login", "--module", "tensorflow")
    assert text.startswith("Found mnsubmit (MinoTauro): jobs will go to its queue.\n")
    site = read_site(tmp_path / "config/sites/login.toml")
    assert site == Site(
        host="login", scheduler="mnsubmit", modules=("tensorflow",), allocation=AllocationRequest(time="01:00:00")
    )


def test_modules_are_listed_and_searched(cluster: MiniCluster, tmp_path: Path) -> None:
    every = clew(cluster, tmp_path, "site", "modules", "minicluster").splitlines()
    assert "cuda/8.0" in every
    assert next(line for line in every if line.startswith("tensorflow/")).endswith("(in the site)")
    found = json.loads(clew(cluster, tmp_path, "site", "modules", "minicluster", "CUD*", "--json"))
    assert found["modules"] == ["cuda/8.0", "CUDNN/5.1.10-cuda_8.0"]
    assert clew(cluster, tmp_path, "site", "modules", "minicluster", "gromacs", code=2) == ""


# --- Each refusal has its own sentence --------------------------------------------------------------------------------


class Person(Prompter):
    """Answers by the kind of question, and counts."""

    def __init__(self, **answers: str) -> None:
        self._answers = answers
        self.asked: list[PromptKind] = []

    def ask(self, prompt: Prompt) -> str | None:
        self.asked.append(prompt.kind)
        return self._answers.get(prompt.kind.value)


class Ill:
    """The mini cluster's login node as a site, examined from the laptop's network by this process."""

    def __init__(self, cluster: MiniCluster, folder: Path) -> None:
        self.cluster = cluster
        self.places = Places(folder, folder / "run")
        self._said: dict[str, str] = {}

    def look(
        self, *faults: str, prompter: Prompter | None = None, stop: threading.Event | None = None, **site: Any
    ) -> list[Finding]:
        """What is found while all these faults are there."""
        fields = {"host": "10.77.0.1", "user": "student", "scheduler": "slurm", "key": self.key, **site}
        want_job = bool(fields.pop("want_job", False))
        with ExitStack() as stack:
            for fault in faults:
                stack.enter_context(self.cluster.broken(fault))
            stack.enter_context(self.cluster.network("laptop"))
            found = list(examine("ill", Site(**fields), self.places, prompter or NobodyToAsk(), want_job, stop))
        assert [one.check for one in found if one.verdict is Verdict.BAD and not one.hint] == [], "how to fix it?"
        return found

    @property
    def key(self) -> str:
        return f"{self.cluster.info()['laptop_home']}/.ssh/id_ed25519"

    def sentence(self, name: str) -> str:
        """What somebody reads in this case; each examination is made once and serves several cases."""
        if name not in self._said:
            self._said |= next(look for cases, look in EXAMINATIONS if name in cases)(self)
        return self._said[name]


@pytest.fixture(scope="module")
def ill(cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory) -> Ill:
    folder = tmp_path_factory.mktemp("doctor")
    known = Path(cluster.info()["laptop_home"]) / ".ssh/known_hosts"
    (folder / "config").mkdir()
    (folder / "config/known_hosts").write_bytes(known.read_bytes())
    return Ill(cluster, folder)


def by_check(findings: list[Finding]) -> dict[str, str]:
    """The texts of what is bad or worth knowing."""
    return {one.check: one.text for one in findings if one.verdict in (Verdict.BAD, Verdict.WARN)}


def host_key(ill: Ill) -> dict[str, str]:
    person = Person(confirm="yes", password="learning-rate-0.1")
    findings = ill.look("host-key", prompter=person)
    assert person.asked == []
    assert {one.verdict for one in findings if one.check in ("login", "shell", "home")} == {Verdict.SKIPPED}
    return {"host key changed": by_check(findings)["hostkey"]}


def password(ill: Ill) -> dict[str, str]:
    person = Person(password="momentum-0.9")
    return {"wrong password": by_check(ill.look(prompter=person, key=""))["login"]}


def code(ill: Ill) -> dict[str, str]:
    user = ill.cluster.info()["users"]["student"]
    person = Person(password=user["password"], code="000000")
    return {"wrong code": by_check(ill.look(prompter=person, port=2222))["login"]}


def much_at_once(ill: Ill) -> dict[str, str]:
    """None of the faults hides another."""
    found = by_check(
        ill.look(
            "home-full",
            "no-tensorflow",
            "nodes-need-job",
            modules=("python", "nosuch"),
            allocation=AllocationRequest(gpus=9),
        )
    )
    return {
        "full home": found["home"],
        "missing module": found["modules"],
        "no TensorFlow": found["tensorflow"],
        "too many GPUs": found["gpus"],
        "login to nodes forbidden": found["nodes"],
    }


def the_rest(ill: Ill) -> dict[str, str]:
    found = by_check(
        ill.look("quota-full", "no-python", "no-forwarding", allocation=AllocationRequest(partition="nosuch"))
    )
    return {
        "no quota": found["quota"],
        "no python": found["python"],
        "unknown partition": found["partition"],
        "forwarding forbidden": found["forwarding"],
    }


def held(ill: Ill) -> dict[str, str]:
    job = ill.cluster.submit("sleep 60", "--hold")
    slurm = scheduler_of("slurm")
    ref = JobRef(job, "")
    words = [f"{name}={value}" for name, value in environment().items()]
    answer = ill.cluster.on("login", "env", *words, *slurm.status([ref]))
    state = slurm.states([ref], Output(0, answer))[job]
    ill.cluster.on("login", "scancel", job)
    return {"job held": slurm.explain(state).text}


CASES: Mapping[str, str] = {
    "host key changed": r"a different key than before: known is SHA256:\S+, it shows SHA256:\S+\. .*nothing was sent",
    "wrong password": r"The password for student@10\.77\.0\.1 was refused",
    "wrong code": r"one-time code for student@10\.77\.0\.1 was refused",
    "no quota": r"On /home/student (.+ [kMG]B) of your \1 are used\. No more can be written",
    "missing module": r"The module nosuch cannot be loaded",
    "no TensorFlow": r"has no TensorFlow",
    "no python": r"There is no working Python",
    "full home": r"The disk is full: not a byte can be written to /home/student",
    "unknown partition": r"The scheduler has no partition 'nosuch'",
    "too many GPUs": r"asks for 9 GPUs of each node; a node in debug has 4",
    "job held": r"It will not start: you have held it\. `scontrol release` lets it go\.",
    "forwarding forbidden": r"login node forbids forwarding",
    "login to nodes forbidden": r"does not let you in by SSH while you have no job there \(pam_slurm\)",
}
EXAMINATIONS: tuple[tuple[tuple[str, ...], Callable[[Ill], dict[str, str]]], ...] = (
    (("host key changed",), host_key),
    (("wrong password",), password),
    (("wrong code",), code),
    (("full home", "missing module", "no TensorFlow", "too many GPUs", "login to nodes forbidden"), much_at_once),
    (("no quota", "no python", "unknown partition", "forwarding forbidden"), the_rest),
    (("job held",), held),
)


@pytest.mark.parametrize("case", CASES)
def test_each_refusal_has_a_sentence(ill: Ill, case: str) -> None:
    assert re.search(CASES[case], ill.sentence(case)), ill.sentence(case)


def test_no_two_refusals_share_a_sentence(ill: Ill) -> None:
    for case in CASES:
        fitting = [other for other, pattern in CASES.items() if re.search(pattern, ill.sentence(case))]
        assert fitting == [case]


@pytest.mark.parametrize(
    ("allocation", "code"), [({"partition": "nosuch"}, "scheduler.partition"), ({"gpus": 9}, "scheduler.nodes")]
)
def test_the_scheduler_itself_refuses_it_too(ill: Ill, allocation: dict[str, Any], code: str) -> None:
    found = {one.check: one for one in ill.look(allocation=AllocationRequest(**allocation))}
    assert (found["request"].verdict, found["request"].code) == (Verdict.BAD, code)


def test_a_key_that_was_never_seen_is_shown_where_nobody_can_be_asked(cluster: MiniCluster, tmp_path: Path) -> None:
    found = {one.check: one for one in Ill(cluster, tmp_path).look()}
    assert (found["hostkey"].verdict, found["hostkey"].code) == (Verdict.BAD, "ssh.hostkey.unknown")
    shown = re.search(r"SHA256:[A-Za-z0-9+/]{43}", found["hostkey"].text)
    assert shown is not None
    assert shown[0] in cluster.on("root@login", "for key in /etc/ssh/*.pub; do ssh-keygen -lf $key; done")
    assert found["shell"].text == "Not tried, because the key of student@10.77.0.1 was not accepted."


def test_password_and_code_are_asked_for_once(ill: Ill) -> None:
    person = Person(password=ill.cluster.info()["users"]["student"]["password"], code=ill.cluster("code"))
    findings = ill.look(prompter=person, port=2222, modules=("tensorflow",))
    assert person.asked == [PromptKind.PASSWORD, PromptKind.CODE]
    assert not [one for one in findings if one.verdict is Verdict.BAD]
    again = ill.look(prompter=NobodyToAsk(), port=2222, modules=("tensorflow",))
    assert not [one for one in again if one.verdict is Verdict.BAD], "the login is kept"
    end_logins(ill.places)


def test_a_doctor_who_is_stopped_takes_the_job_back(ill: Ill) -> None:
    stop = threading.Event()
    findings: list[Finding] = []

    def look() -> None:
        findings.extend(ill.look(stop=stop, want_job=True, extra=("--begin=now+1hour",)))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        wait_for(lambda: ill.cluster.on("login", "squeue -h -t pending"), "the job", 4 * LIMIT_S)
    finally:
        stop.set()
        thread.join(4 * LIMIT_S)
    assert findings[-1].check == "node"
    assert "still waits: It may not begin before a set time." in findings[-1].text
    assert ill.cluster.on("login", "squeue -h -t pending,running") == ""
