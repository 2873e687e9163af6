"""What is sampled of a run's processes and their node, and what happens to a sample that cannot be had."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import psutil
import pytest

from clew_agent.node.pulse import spool
from clew_agent.node.pulse.batches import HOLD_S, TRAINER, PulseBatch, as_event, last_of
from clew_agent.node.pulse.gpus import Gpus
from clew_agent.node.pulse.sampler import DENSE_S, MOST_SHARE, Sample, Sampler, pause, usual_sources
from clew_agent.node.pulse.sources import Memory, Node, Packages, ProcessTree, Readings, Source
from clew_agent.node.pulse.spool import SpoolReader, SpoolWriter, remove_spool, spool_folder
from clew_shared.journal.events import Event, Log, Pulse
from clew_shared.journal.pulse import read_pulse
from clew_shared.journal.run_folder import RunFolder
from tests.unit.work import lines_run

BURN = "import sys; print(flush=True)\nwhile True: pass"
WAIT = "import sys; print(flush=True); sys.stdin.read()"


@contextmanager
def program(code: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", code, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def start(code: str, *words: str) -> str:
    """A program that starts another one and waits for it."""
    return f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}, *{words!r}])"


def used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def test_a_process_is_read_with_what_it_started() -> None:
    with program(start(BURN)) as process:
        tree = ProcessTree(lambda: process.pid)
        first = tree.read(10.0)
        child = psutil.Process(process.pid).children()[0]
        begun = used(child)
        while used(child) < begun + 0.2:
            threading.Event().wait(0.02)
        found = tree.read(20.0)
        both = (child, psutil.Process(process.pid))
        threads = sum(one.num_threads() for one in both)
        memory = sum(one.memory_info().rss for one in both)
        child.kill()
    assert "cpu" not in first, "a rate needs two samples"
    assert found["cpu"] >= 0.019
    assert found["memory"] == pytest.approx(memory, rel=0.2)
    assert found["threads"] == threads


def test_a_peer_is_left_out_with_what_it_started() -> None:
    with program(start(WAIT, "clew_agent", "peer")) as process:
        tree = ProcessTree(lambda: process.pid)
        assert tree.read(1.0)["threads"] == psutil.Process(process.pid).num_threads()
        psutil.Process(process.pid).children()[0].kill()


def test_a_process_that_has_ended_gives_no_sample() -> None:
    with program(WAIT) as process:
        tree = ProcessTree(lambda: process.pid)
        tree.read(1.0)
    process.wait()
    with pytest.raises(psutil.NoSuchProcess):
        tree.read(2.0)


def test_the_node_is_read() -> None:
    node = Node()
    assert node.read(1.0).keys() == {"cores"}
    assert {"cores", "node_cpu"} <= node.read(2.0).keys()


GROUPS = {
    "memory.max": "29 23 0:25 / {folder} rw - cgroup2 none rw\n",
    "memory.limit_in_bytes": "29 23 0:25 / {folder} rw - cgroup memory rw,memory\n",
}


@pytest.mark.unix("control groups")
@pytest.mark.parametrize("name", GROUPS)
def test_the_tightest_limit_counts_and_caches_do_not(tmp_path: Path, name: str) -> None:
    newer = name == "memory.max"
    groups = tmp_path / "groups"
    (tmp_path / "mountinfo").write_text(GROUPS[name].format(folder=groups))
    (tmp_path / "cgroup").write_text("4:memory:/job/step\n0::/job/step\n")
    limits = {"job": "6000000", "job/step": "max" if newer else str((1 << 63) - 4096)}
    for folder, limit in limits.items():
        (groups / folder).mkdir(parents=True)
        (groups / folder / name).write_text(f"{limit}\n")
        (groups / folder / ("memory.current" if newer else "memory.usage_in_bytes")).write_text("5000000\n")
        cached = "inactive_file 1000000\n" if newer else "inactive_file 7\ntotal_inactive_file 1000000\n"
        (groups / folder / "memory.stat").write_text(f"anon 3\n{cached}")
    assert Memory(tmp_path).read(1.0) == {"memory_used": 4e6, "memory_limit": 6e6}


def test_without_a_group_the_nodes_memory_is_the_limit(tmp_path: Path) -> None:
    assert Memory(tmp_path).read(1.0)["memory_limit"] == psutil.virtual_memory().total


@pytest.mark.unix("colons in names of files")
def test_the_packages_power_survives_a_counter_that_begins_again(tmp_path: Path) -> None:
    for number, count in enumerate((500, 900)):
        package = tmp_path / f"intel-rapl:{number}"
        package.mkdir()
        (package / "energy_uj").write_text(f"{count}\n")
        (package / "max_energy_range_uj").write_text("1000\n")
        (tmp_path / f"intel-rapl:{number}:0").mkdir()
        (tmp_path / f"intel-rapl:{number}:0" / "energy_uj").write_text("7\n")
    packages = Packages(tmp_path)
    assert packages.read(1.0) == {}
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("700\n")
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("100\n")
    assert packages.read(3.0) == {"power": pytest.approx((200 + 200) / 1e6 / 2)}


def test_no_counters_are_no_power(tmp_path: Path) -> None:
    packages = Packages(tmp_path)
    assert packages.read(1.0) == packages.read(2.0) == {}


# --- GPUs: a stand-in of the package nvidia-ml-py ---------------------------------------------------------------------


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class Nvml:
    """Two cards and a slice of one, as NVML shows them. ``lost`` cards have fallen off the bus."""

    NVMLError: ClassVar = NvmlError
    NVML_ERROR_GPU_IS_LOST, NVML_TEMPERATURE_GPU, NVML_CLOCK_SM = 15, 0, 1
    NOT_SUPPORTED, NOT_FOUND = 3, 6

    def __init__(self) -> None:
        self.lost: set[object] = set()
        self.asked: list[object] = []

    def nvmlInit(self) -> None:  # noqa: N802  # NVML's name
        pass

    def nvmlDeviceGetHandleByIndex(self, index: int) -> object:  # noqa: N802  # NVML's name
        if index > 1:
            raise NvmlError(self.NOT_FOUND)
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> object:  # noqa: N802  # NVML's name
        return {"GPU-b": 1, "MIG-c": "slice"}[uuid]

    def nvmlDeviceGetMemoryInfo(self, card: object) -> SimpleNamespace:  # noqa: N802  # NVML's name
        self.asked.append(card)
        if card in self.lost:
            raise NvmlError(self.NVML_ERROR_GPU_IS_LOST)
        return SimpleNamespace(used=3e9, total=5e9 if card == "slice" else 80e9)

    def nvmlDeviceGetUtilizationRates(self, card: object) -> SimpleNamespace:  # noqa: N802  # NVML's name
        return SimpleNamespace(gpu=91)

    def nvmlDeviceGetPowerUsage(self, card: object) -> int:  # noqa: N802  # NVML's name
        if card == 1:
            raise NvmlError(self.NOT_SUPPORTED)
        return 212_000

    def nvmlDeviceGetTemperature(self, card: object, sensor: int) -> int:  # noqa: N802  # NVML's name
        return 64

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, card: object) -> int:  # noqa: N802  # NVML's name
        return 0x44 if card == 1 else 0x04

    def nvmlDeviceGetClockInfo(self, card: object, kind: int) -> int:  # noqa: N802  # NVML's name
        return 1755


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    found = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", found)
    return found


def test_a_card_is_read(nvml: Nvml) -> None:
    assert Gpus(["0"]).read(1.0) == {
        "gpu0_use": 0.91,
        "gpu0_memory": 3e9,
        "gpu0_memory_limit": 80e9,
        "gpu0_power": 212.0,
        "gpu0_temperature": 64.0,
        "gpu0_clock": 1755.0,
        "gpu0_throttled": 0.0,
    }
    assert Gpus(["1"]).read(1.0)["gpu0_throttled"] == 1.0, "heat is a reason, a power limit is none"


def test_what_a_card_does_not_say_is_unknown(nvml: Nvml) -> None:
    found = Gpus(["GPU-b"]).read(1.0)
    assert "gpu0_power" not in found
    assert found["gpu0_clock"] == 1755.0


def test_of_a_slice_only_the_memory_is_its_own(nvml: Nvml) -> None:
    assert Gpus(["MIG-c"]).read(1.0) == {"gpu0_memory": 3e9, "gpu0_memory_limit": 5e9}


def test_a_card_that_vanishes_is_asked_no_more_and_the_others_go_on(nvml: Nvml) -> None:
    gpus = Gpus(["0", "1"])
    nvml.lost = {0}
    assert {name.split("_")[0] for name in gpus.read(1.0)} == {"gpu1"}
    nvml.asked.clear()
    assert {name.split("_")[0] for name in gpus.read(2.0)} == {"gpu1"}
    assert nvml.asked == [1]


def test_a_card_that_is_not_there_is_unknown(nvml: Nvml) -> None:
    assert {name.split("_")[0] for name in Gpus(["7", "0"]).read(1.0)} == {"gpu1"}


def test_without_the_package_there_is_a_pulse_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(ImportError):
        Gpus(["0"])
    assert len(usual_sources(lambda: 1)) >= 3


# --- The thread -------------------------------------------------------------------------------------------------------


class Broken:
    def read(self, now: float) -> Readings:
        raise RuntimeError("the driver has gone")


class Steady:
    def __init__(self, **values: float) -> None:
        self._values = values

    def read(self, now: float) -> Readings:
        return dict(self._values)


def samples(sources: Sequence[Source]) -> Sample:
    """The first sample of some sources."""
    found: list[Sample] = []
    came = threading.Event()

    def take(sample: Sample) -> None:
        found.append(sample)
        came.set()

    sampler = Sampler(lambda: sources, take)
    sampler.start()
    assert came.wait(60)
    sampler.close()
    return found[0]


def test_a_source_that_fails_costs_its_own_values_only() -> None:
    before = time.time()
    sample = samples([Steady(cpu=1.5), Broken(), Steady(power=40.0)])
    assert sample.values == {"cpu": 1.5, "power": 40.0}
    assert before <= sample.time <= time.time()


def test_samples_are_a_second_apart_at_first_then_rarer_and_never_dear() -> None:
    assert pause(5.0, 0.001) == 1.0
    assert pause(10 * DENSE_S, 0.001) == 10.0
    assert pause(5.0, 0.02) == pytest.approx(0.02 / MOST_SHARE)
    in_a_month, age = 0, 0.0
    while age < 30 * 86_400:
        age += pause(age, 0.0)
        in_a_month += 1
    assert in_a_month < 70_000


def test_a_sample_of_everything_takes_little_work() -> None:
    """A few lines for each process of the machine, to find the run's own, and a fixed number beside them."""
    sources: list[Any] = usual_sources(psutil.Process().pid.__int__)
    for source in sources:
        source.read(1.0)
    for moment in range(20):
        work = sum(lines_run(source.read, 2.0 + moment / 1000)[1] for source in sources)
        assert work < 5_000 + 10 * len(psutil.pids())


# --- The samples on their way from the guard to the trainer, and as events of the journal -----------------------------


@pytest.fixture
def folder(home: Path) -> Path:
    return spool_folder(RunFolder(home / "run"), 1)


def sample(number: int, **values: float) -> Sample:
    return Sample(1000.0 + number, values)


def test_each_sample_arrives_once_and_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_PER_FILE", 3)
    writer, reader, found = SpoolWriter(folder), SpoolReader(folder), list[Sample]()
    assert reader.take() == []
    for number in range(11):
        writer.add(sample(number, cpu=number / 2))
        if number % 4 == 0:
            found += reader.take()
    found += reader.take()
    assert found == [sample(number, cpu=number / 2) for number in range(11)]
    assert len(list(folder.iterdir())) == 1, "what was read is removed"


def test_who_comes_later_takes_what_was_not_removed(folder: Path) -> None:
    writer = SpoolWriter(folder)
    for number in range(4):
        writer.add(sample(number))
    SpoolReader(folder).take()
    assert len(SpoolReader(folder).take()) == 4


def test_half_a_sample_is_waited_for(folder: Path) -> None:
    SpoolWriter(folder).add(sample(0))
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:7])
    reader = SpoolReader(folder)
    assert len(reader.take()) == 1
    path.write_bytes(whole + whole)
    assert reader.take() == [sample(0)]


def test_a_spool_that_was_removed_stays_so(home: Path, folder: Path) -> None:
    writer = SpoolWriter(folder)
    writer.add(sample(0))
    remove_spool(RunFolder(home / "run"), 1)
    writer.add(sample(1))
    assert not folder.exists()


def pulses(events: list[Event]) -> list[Pulse]:
    return [event for event in events if isinstance(event, Pulse)]


def test_samples_become_columns_of_some_seconds() -> None:
    batch = PulseBatch(TRAINER, "node17")
    events = [event for number in range(7) for event in batch.add(sample(number, cpu=1.0, **{f"only{number}": 2.0}))]
    events += batch.rest()
    found = [read_pulse(event) for event in pulses(events)]
    assert len(found) == math.ceil(7 / (HOLD_S + 1))
    assert all(one is not None for one in found)
    assert [time for one in found if one is not None for time in one[0]] == [1000.0 + number for number in range(7)]
    first = found[0]
    assert first is not None
    assert [value for value in first[1]["only1"].tolist() if not math.isnan(value)] == [2.0]
    assert batch.rest() == []


def test_what_is_in_the_journal_is_not_recorded_again() -> None:
    recorded = as_event(TRAINER, "node17", [sample(0), sample(1)])
    batch = PulseBatch(TRAINER, "node17")
    batch.skip(recorded)
    for number in range(4):
        batch.add(sample(number))
    assert [event.times for event in pulses(batch.rest())] == [as_event(TRAINER, "", [sample(2), sample(3)]).times]
    assert last_of(as_event("worker 1", "node17", [sample(9)])) == 0.0


def test_memory_near_its_limit_is_said_once_and_at_once() -> None:
    batch = PulseBatch("worker 1", "node2")
    assert batch.add(sample(0, memory_used=7.1e9, memory_limit=8e9)) == []
    pulse, warning = batch.add(sample(1, memory_used=7.3e9, memory_limit=8e9))
    assert isinstance(pulse, Pulse)
    assert isinstance(warning, Log)
    assert warning.text.startswith("Memory is nearly used up on node2: 7.3 GB of 8.0 GB.")
    assert batch.add(sample(2, memory_used=7.9e9, memory_limit=8e9)) == []


def test_a_warning_that_is_in_the_journal_is_not_said_again() -> None:
    near = {"memory_used": 7.3e9, "memory_limit": 8e9}
    first, later = PulseBatch(TRAINER, "node17"), PulseBatch(TRAINER, "node17")
    for event in first.add(sample(1, **near)):
        later.skip(event)
    assert later.add(sample(2, **near)) == []


def test_memory_whose_limit_is_not_known_is_no_warning() -> None:
    assert PulseBatch(TRAINER, "node17").add(sample(0, memory_used=7.9e9)) == []
