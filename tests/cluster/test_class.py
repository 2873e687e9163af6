"""A class on the cluster: a teacher's board and folder for hand-ins, two students, and what one of them may try."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from minicluster.namespaces import root_of
from minicluster.plan import COURSES
from minicluster.state import State

from clew_gui.courses.board import Board
from clew_gui.courses.course import SharedPlace
from clew_gui.courses.course_file import from_files, write_course
from clew_gui.courses.shared_folder import SharedFolder
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection, open_connection
from clew_gui.sites.store import site_store
from clew_gui.ssh.prompts import AskOnce
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError
from tests.cluster.commands import CALL_LIMIT_S, PROGRAM
from tests.cluster.journey import Agrees
from tests.cluster.mini import MiniCluster
from tests.cluster.test_unknown_site import HOST, Person
from tests.integration.agents import wait_for
from tests.stand_in import FOLDER as STAND_IN

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900)]

FOLDER = "/home/teacher/course"
COURSE = f"""format = 1
id = "dl"
title = "Deep learning"
board = "cluster:{FOLDER}/board"
hand_in = "cluster:{FOLDER}/handins"

[[lessons]]
title = "Lines"
until = 2026-01-01T18:00:00+01:00
exercises = [{{ id = "linear-regression" }}]

[[lessons]]
title = "Digits"
allocation = {{ reservation = "monday" }}
exercises = [{{ id = "softmax" }}]
"""
SITE = 'format = 1\nhost = "login"\nscheduler = "slurm"\n'
BYTES = 40_000_000
"""The most that one look of the teacher may bring: 16 MB of the board and of the hand-ins, in base64."""

TRIES = r"""
import json, os, sys
folder, name = sys.argv[1:]
file, here = os.path.join(folder, name), lambda name: os.path.join(folder, name)
def replace():
    open(here("own"), "w").close()
    os.replace(here("own"), file)
tries = {
    "list": lambda: os.listdir(folder),
    "read": lambda: open(file).read(),
    "write": lambda: open(file, "r+").close(),
    "append": lambda: open(file, "a").close(),
    "shorten": lambda: os.truncate(file, 0),
    "remove": lambda: os.unlink(file),
    "rename": lambda: os.rename(file, here("mine.board")),
    "replace": replace,
    "open to all": lambda: os.chmod(file, 0o666),
    "another time": lambda: os.utime(file, (0, 0)),
    "rename the folder": lambda: os.rename(folder, folder + "-before"),
    "open the folder": lambda: os.chmod(folder, 0o777),
}
said = {}
for what, do in tries.items():
    try:
        do()
        said[what] = "done"
    except OSError as error:
        said[what] = type(error).__name__
print(json.dumps(said))
"""
PLANTS = r"""
import os, sys
folder, end, many = sys.argv[1].encode(), sys.argv[2].encode(), int(sys.argv[3])
here = lambda name: os.path.join(folder, b"!" + name + end)
def put(name, data=b"", mode=0o644):
    with open(here(name), "wb") as file:
        file.write(data)
    os.chmod(here(name), mode)
os.symlink("/etc/passwd", here(b"link"))
os.mkfifo(here(b"pipe"), 0o666)
os.mkdir(here(b"folder"))
put(b"one", b"x")
os.link(here(b"one"), here(b"two"))
put(b"sparse")
os.truncate(here(b"sparse"), 10 << 30)
put(b"binary", bytes(range(256)) * 20)
put(b"endless", b"[" * 900_000)
put(b"lines", b'{"time": NaN}\n{"time": 5, "name": "\\u001b[31mroot"}\n{"time": 5, "name": "Planted"}\n')
put(b"\xff\xfe")
put(b'clew:{"files": [], "more": 0}')
put(b"\nclew:{}\n")
put(b"\x1b[31mred")
put(b"closed", b"x", 0)
for number in range(many):
    open(os.path.join(folder, b"%05d" % number + end), "wb").close()
"""


class Class:
    """Three people, each with an account and a home on the laptop."""

    def __init__(self, cluster: MiniCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder

    def at(self, path: str) -> Path:
        """A path on the cluster, seen from outside."""
        return root_of(State(self.cluster.folder).pid("switch")) / path.lstrip("/")

    def call(self, who: str, *words: str, status: int = 0) -> str:
        """A command on a person's laptop; what it printed, and what went wrong."""
        place = ("on", "laptop", "env", "-C", str(self.folder), f"CLEW_HOME={self.folder / who}")
        done = self.cluster.call(*place, *PROGRAM, *words, limit_s=CALL_LIMIT_S)
        assert done.returncode == status, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def seen(self, status: int = 0) -> dict[str, Any]:
        """The teacher's view: the students by name, and the rest."""
        found: dict[str, Any] = json.loads(self.call("teacher", "class", "--json", status=status).splitlines()[0])
        return found | {"students": {row["name"]: row for row in found["students"]}}

    @contextmanager
    def shared(self, who: str, path: str, site: str = "dl-cluster") -> Iterator[SharedFolder]:
        """A folder on the cluster as an account of this person sees it, by one login."""
        home = self.folder / who
        with self.cluster.network("laptop"), closing(self._line(Places(home=home, private=home), site)) as line:
            yield SharedFolder(SharedPlace(site, path), lambda: line)

    def _line(self, places: Places, site: str) -> SiteConnection:
        return open_connection(site, site_store(places).load(site), places, AskOnce(Agrees()))

    @contextmanager
    def trains(self, who: str, *words: str) -> Iterator[None]:
        """A run on a person's own computer, without TensorFlow, stopped in the end with Ctrl+C."""
        places = {"CLEW_HOME": str(self.folder / who), "PYTHONPATH": str(STAND_IN)}
        command = [*PROGRAM, "run", *words]
        with subprocess.Popen(
            command, env=os.environ | places, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                yield
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(CALL_LIMIT_S)

    def try_all(self, folder: str, name: str) -> dict[str, str]:
        """What the classmate can do to the student's file ``name`` in a shell: what the system said to each try."""
        program = ("python3", "-c", TRIES, folder, name)
        said: dict[str, str] = json.loads(self.cluster.on("classmate@login", *program))
        return said


@pytest.fixture(scope="module")
def lab(cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory) -> Class:
    """The teacher has made the folders and put the course file beside them; everybody has opened it by its path on the
    site and joined, the classmate over two hops: through the login node to a node."""
    one = Class(cluster, tmp_path_factory.mktemp("class"))
    cluster.on("teacher@login", f"chmod 711 ~ && mkdir {FOLDER}")
    course = from_files({"course.toml": COURSE.encode(), "sites/cluster.toml": SITE.encode()}, "course")
    shutil.copyfile(write_course(one.folder / "dl", course), one.at(f"{FOLDER}/dl.clew-course"))
    key = Path(cluster.info()["laptop_home"]) / ".ssh/id_ed25519"
    for who in ("teacher", "student", "classmate"):
        places = Places(home=one.folder / who, private=one.folder / who)
        site = Site(host="10.77.0.1", user=who, key=str(key), scheduler="slurm")
        if who == "classmate":
            site = msgspec.structs.replace(site, host="node1", jump=("classmate@10.77.0.1",))
        site_store(places).save("mini", site)
        if who == "teacher":
            for name in ("board", "handins"):
                assert "and no other student" in one.call(who, "course", "board", f"mini:{FOLDER}/{name}")
        assert "Board of the class" in one.call(who, "course", "open", f"mini:{FOLDER}/dl.clew-course", "--consent")
        site_store(places).save("dl-cluster", site, replace=True)
        if who != "teacher":
            one.call(who, "course", "share", "--name", who.title(), "--curves")
    return one


def uid_of(who: str) -> int:
    """The number of an account."""
    return COURSES.users[who].uid


def of(folder: Path, who: str) -> Path:
    """An account's only file in a folder."""
    (path,) = (path for path in folder.iterdir() if path.lstat().st_uid == uid_of(who))
    return path


def test_runs_are_seen_while_they_train(lab: Class) -> None:
    """Two students train at once; the teacher sees both, by their accounts, and more of the curves when they stop."""
    run = ("linear-regression", "--set", "steps=1000000")
    with lab.shared("teacher", f"{FOLDER}/board") as folder:
        board = Board(folder)

        def curves() -> dict[str, int]:
            """By account, the last step of the curve that each shares."""
            for who in ("student", "classmate"):
                lab.call(who, "course", "share")
            board.refresh()
            lines = {one.owner: run.line for one in board.members.values() for run in one.of("linear-regression")}
            return {owner: line.points[-1][0] for owner, line in lines.items() if line.points}

        with lab.trains("student", *run), lab.trains("classmate", *run):
            wait_for(lambda: len(curves()) == 2, "both curves")
            before, rows = curves(), lab.seen()["students"]
        now = curves()
    assert set(rows) == {"Student", "Classmate"}
    assert {row["owner"]: row["cells"]["linear-regression"]["state"] for row in rows.values()} == {
        "student": "RUNNING",
        "classmate": "RUNNING",
    }
    assert all(row["cells"]["linear-regression"]["best"] > 0 and not row["notes"] for row in rows.values())
    assert all(now[owner] > step for owner, step in before.items())


def test_the_queue_of_the_lessons_reservation_is_seen(lab: Class) -> None:
    """Of a reservation of one node one student's job has it, and another's waits for it."""
    about = ("users=student,classmate", "nodes=node3", "starttime=now", "duration=60")
    lab.cluster.on("root@login", "scontrol", "create", "reservation", "reservationname=monday", *about)
    job = ("sbatch", "--parsable", "--reservation=monday", "--exclusive", "--time=20", "--wrap=sleep 600")
    jobs = [(who, lab.cluster.on(f"{who}@login", *job).strip()) for who in ("student", "classmate")]

    def queue() -> tuple[object, object]:
        found = lab.seen()["queue"]
        return found["running"], found["waiting"]

    try:
        wait_for(lambda: queue() == (1, 1), "one job that runs and one that waits")
        assert "monday: 1 job running, 1 waiting" in lab.call("teacher", "class")
    finally:
        for who, number in jobs:
            lab.cluster.on(f"{who}@login", "scancel", number)
        wait_for(lambda: queue() == (0, 0), "an empty queue")
        lab.cluster.on("root@login", "scontrol", "delete", "reservation=monday")


def test_hand_ins_come_with_receipts_and_a_forged_one_is_named(lab: Class) -> None:
    lab.call("student", "run", "linear-regression", "--set", "steps=300", "--json")
    words = ("last", "--student", "Student", "--out", "student.zip", "--send", "--json")
    receipt = json.loads(lab.call("student", "hand-in", *words).splitlines()[-1])["receipt"]
    there = lab.at(f"{FOLDER}/handins") / receipt["file"]
    assert hashlib.sha256(there.read_bytes()).hexdigest() == receipt["sha256"]
    assert receipt["time"] > receipt["until"] > 0
    forged = forge(lab.folder / "student.zip")
    lab.cluster.on("classmate@login", f"base64 -d > {FOLDER}/handins/forged.clew.zip", input=forged)
    students = lab.seen(status=1)["students"]
    (good,), (bad,) = (students[name]["handed"] for name in ("Student", "Classmate"))
    assert (good["owner"], good["checked"], good["ok"]) == ("student", "as recorded", True)
    assert re.fullmatch(r"[0-9]+ days.* late", good["late"])
    assert (bad["file"], bad["owner"], bad["checked"]) == ("forged.clew.zip", "classmate", "ALTERED")


def forge(bundle: Path) -> str:
    """A hand-in with a byte of a journal changed, in base64."""
    target = bundle.with_name("forged.zip")
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            data = bytearray(old.read(info))
            if "journal" in info.filename:
                data[len(data) // 2] ^= 1
            new.writestr(info, bytes(data))
    return base64.b64encode(target.read_bytes()).decode()


@contextmanager
def without_lists(cluster: MiniCluster, login: str = "login") -> Iterator[None]:
    """The login node has no program for access lists."""
    cluster.on(f"root@{login}", "mount --bind /dev/null /usr/bin/setfacl")
    try:
        yield
    finally:
        cluster.on(f"root@{login}", "umount /usr/bin/setfacl")


def test_a_classmate_can_neither_read_nor_change(lab: Class) -> None:
    """With an access list, and by the teacher's own group: whoever knows the name of a file can do nothing to it."""
    plain = f"{FOLDER}/plain"
    with without_lists(lab.cluster):
        lab.call("teacher", "course", "board", f"dl-cluster:{plain}")
    assert lab.at(plain).stat().st_mode & 0o7777 == 0o3733
    with lab.shared("student", plain) as folder:
        folder.checked().append("secret.board", 0, b"mine\n")
    with lab.shared("teacher", plain) as folder:
        assert folder.look(".board", {"": 0})[0][0].data == b"mine\n"
    for where in (plain, f"{FOLDER}/board", f"{FOLDER}/handins"):
        file = of(lab.at(where), "student")
        before = (file.read_bytes(), file.stat().st_mtime_ns)
        said = lab.try_all(where, file.name)
        assert set(said.values()) == {"PermissionError"}, (where, said)
        assert (file.read_bytes(), file.stat().st_mtime_ns) == before


@pytest.mark.parametrize(
    ("made", "can"),
    [
        ("mkdir -m 1777 {}", "read"),
        ("mkdir {} && chgrp teacher {} && chmod 2733 {}", "remove"),
        ("mkdir {} && chmod 3733 {}", ""),
        ("mkdir -m 1733 {} && setfacl -d -m u::rw,g::r,o::-,u:teacher:r,m::r {}", "read"),
        ("mkdir -m 1733 {} && setfacl -d -m u::rw,g::-,o::-,g:student:r,m::r {}", "read"),
        ("mkdir -m 777 {}-above && mkdir -m 3733 {}-above/in && mv -T {}-above/in {}-above/b", "replace"),
    ],
)
def test_a_folder_that_protects_nothing_is_refused(lab: Class, made: str, can: str) -> None:
    path = f"{FOLDER}/{uuid.uuid4().hex}"
    lab.cluster.on("teacher@login", made.replace("{}", path))
    with lab.shared("student", f"{path}-above/b" if can == "replace" else path) as folder:
        if not can:
            folder.checked()
            return
        with pytest.raises(ProblemError, match=f"does not protect its files: other students could {can}"):
            folder.checked()


def test_the_doctor_asks_about_the_folders_of_the_class(lab: Class) -> None:
    checks = json.loads(lab.call("student", "site", "doctor", "dl-cluster", "--json", status=1).splitlines()[0])
    assert f"{FOLDER}/board and {FOLDER}/handins" in json.dumps(checks)


def test_what_a_classmate_plants_is_named_and_breaks_nothing(lab: Class) -> None:
    """Links, pipes, endless and invisible files, thousands of them: the teacher sees the others as before, what is not
    Clew's with its account, and reads no more than is good for a laptop."""
    before = lab.seen(status=1)["students"]["Student"]
    for folder, end, many in (("board", ".board", "5000"), ("handins", ".clew.zip", "2500")):
        lab.cluster.on("classmate@login", "python3", "-c", PLANTS, f"{FOLDER}/{folder}", end, many)
    received, logins = received_by(lab), logins_of(lab)
    view = lab.seen(status=1)
    assert received_by(lab) - received < BYTES
    assert logins_of(lab) - logins == 1
    assert view["more"] > 3_500
    assert view["students"]["Student"] == before
    rows = [row for row in view["students"].values() if row["name"] != "Student"]
    assert {row["owner"] for row in rows} == {"classmate"}
    (note,) = view["students"]["classmate"]["notes"]
    assert "files are not Clew's" in note
    assert "it is no name of a file" in note
    words = lab.call("teacher", "class", status=1)
    assert "\x1b" not in words
    assert len(words) < 10_000
    assert "Planted: 2 lines are not Clew's" in words


def received_by(lab: Class) -> int:
    """Bytes that the laptop's network has brought."""
    table = lab.cluster.on("laptop", "cat", "/proc/net/dev")
    return sum(int(line.split(":")[1].split()[0]) for line in table.splitlines() if ":" in line and " lo:" not in line)


def logins_of(lab: Class) -> int:
    """How many connections the laptop has begun."""
    names, numbers = (line.split() for line in lab.cluster.on("laptop", "grep", "^Tcp:", "/proc/net/snmp").splitlines())
    return int(numbers[names.index("ActiveOpens")])


def test_classmates_of_one_group_are_kept_out_as_well(uni: MiniCluster, tmp_path: Path) -> None:
    """On a cluster where all accounts have one group and everybody may read homes: without access lists no board is
    made, nor one believed; with them the classmate can do nothing."""
    teacher, home = Person(uni, "anna.weber", tmp_path / "teacher"), "/srv/users/anna.weber"
    teacher.clew("site", "add", "uni", "--host", HOST, "--user", "anna.weber", "--port", "2022")
    with without_lists(uni, "hpc-login"):
        teacher.clew("course", "board", f"uni:{home}/board", status=2)
    uni.on("hpc-login", f"mkdir {home}/group && chmod 3733 {home}/group")
    teacher.clew("course", "board", f"uni:{home}/group", status=2)
    assert "and no other student" in teacher.clew("course", "board", f"uni:{home}/board")
    put = f"umask 022; cd {home}/board && echo mine > a.board"
    uni.on("hpc-login", put)
    said = uni.on("ben.okafor@hpc-login", "python3", "-c", TRIES, f"{home}/board", "a.board").splitlines()[-1]
    assert set(json.loads(said).values()) == {"PermissionError"}
