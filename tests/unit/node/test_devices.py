"""Which devices an agent finds, what it gives to whom, and what a run's processes are told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_agent.node import devices as devices_module
from clew_agent.node.devices import CPU, Devices, Gpu, find_devices, unseen
from clew_agent.peers.hosts import JobHosts, place, read_hosts, same_host
from clew_agent.peers.messages import SILENCE_S, Silence
from clew_shared.base import operating_system
from clew_shared.base.problem import ProblemError

INFORMATION = """Model: \t\t {model}
IRQ:   \t\t 40
GPU UUID: \t GPU-{uuid}
Video BIOS: \t 96.00.74.00.01
Bus Type: \t PCIe
Device Minor: \t {minor}
GPU Excluded:\t {excluded}
"""
UUIDS = ("11111111-aaaa", "22222222-bbbb", "33333333-cccc", "44444444-dddd")


def driver(folder: Path, *models: str, excluded: str = "") -> Path:
    """What the NVIDIA driver leaves below /proc/driver for these GPUs."""
    nvidia = folder / "nvidia"
    nvidia.mkdir(parents=True)
    (nvidia / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.12\n")
    for number, model in enumerate(models):
        gpu = nvidia / "gpus" / f"0000:{16 * (number + 1):02x}:00.0"
        gpu.mkdir(parents=True)
        out = "Yes" if model == excluded else "No"
        (gpu / "information").write_text(
            INFORMATION.format(model=model, uuid=UUIDS[number], minor=number, excluded=out)
        )
    return nvidia


def found(nvidia: Path, environment: Mapping[str, str] | None = None, places: int = 1) -> Devices:
    return find_devices(places, environment or {}, nvidia, tensorflow=True)


def gpus(*ids: str) -> Devices:
    return Devices(tuple(Gpu(one, f"H100 ({one})") for one in ids))


# --- Finding them -----------------------------------------------------------------------------------------------------


def test_without_the_driver_there_are_places_on_the_processor(tmp_path: Path) -> None:
    here = found(tmp_path / "absent", places=3)
    assert (here.gpus, here.places) == ((), 3)
    assert here.environment((CPU,)) == {"CLEW_DEVICES": "CPU"}


def test_all_gpus_are_counted_as_the_bus_does_and_cuda_is_told_so(tmp_path: Path) -> None:
    here = found(driver(tmp_path, "NVIDIA H100", "NVIDIA A100"))
    assert [(gpu.id, gpu.name) for gpu in here.gpus] == [("0", "NVIDIA H100 (0)"), ("1", "NVIDIA A100 (1)")]
    assert here.environment(("1",)) == {
        "CLEW_DEVICES": "NVIDIA A100 (1)",
        "CUDA_VISIBLE_DEVICES": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def test_a_gpu_that_the_driver_was_told_to_leave_out_is_none(tmp_path: Path) -> None:
    here = found(driver(tmp_path, "NVIDIA T4", "NVIDIA H100", excluded="NVIDIA T4"))
    assert [gpu.name for gpu in here.gpus] == ["NVIDIA H100 (0)"]


@pytest.mark.parametrize(
    ("visible", "ids"),
    [
        ("0", ["0"]),
        ("2,0", ["2", "0"]),
        (" 1 , 2 ", ["1", "2"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0,-1,1", ["0"]),
        ("1,7,2", ["1"]),
        ("1,1,2", ["1"]),
        (f"GPU-{UUIDS[2]}", [f"GPU-{UUIDS[2]}"]),
        ("GPU-22222222,GPU-11111111", ["GPU-22222222", "GPU-11111111"]),
        ("MIG-5c89852c-d268", ["MIG-5c89852c-d268"]),
        ("MIG-GPU-11111111-aaaa/3/0", ["MIG-GPU-11111111-aaaa/3/0"]),
    ],
)
def test_the_environment_names_the_devices_as_it_does_for_cuda(visible: str, ids: list[str], tmp_path: Path) -> None:
    nvidia = driver(tmp_path, "NVIDIA H100", "NVIDIA H100", "NVIDIA H100", "NVIDIA H100")
    assert [gpu.id for gpu in found(nvidia, {"CUDA_VISIBLE_DEVICES": visible}).gpus] == ids


@pytest.mark.parametrize(
    ("models", "environment", "name"),
    [
        (("NVIDIA H100", "NVIDIA H100"), {"CUDA_VISIBLE_DEVICES": "1"}, "NVIDIA H100 (1)"),
        (("NVIDIA H100", "NVIDIA A100"), {"CUDA_VISIBLE_DEVICES": "1"}, "GPU (1)"),
        (
            ("NVIDIA H100", "NVIDIA A100"),
            {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
            "NVIDIA A100 (1)",
        ),
        (("NVIDIA H100", "NVIDIA A100"), {"CUDA_VISIBLE_DEVICES": "GPU-22222222"}, "NVIDIA A100 (GPU-22222222)"),
        (("NVIDIA H100",), {"CUDA_VISIBLE_DEVICES": "MIG-5c89852c-d268"}, "part of a GPU (MIG-5c89852c)"),
        ((), {"CUDA_VISIBLE_DEVICES": "0"}, "GPU (0)"),
    ],
)
def test_a_name_says_no_more_than_is_known(
    models: tuple[str, ...], environment: dict[str, str], name: str, tmp_path: Path
) -> None:
    here = found(driver(tmp_path, *models), environment)
    assert [gpu.name for gpu in here.gpus] == [name]
    assert "CUDA_DEVICE_ORDER" not in here.environment(here.take(1, {}) or ())


def test_gpus_that_nothing_here_can_use_are_not_given(tmp_path: Path) -> None:
    without_driver = find_devices(2, {"CUDA_VISIBLE_DEVICES": "0"}, tmp_path / "absent", tensorflow=True)
    for_processors = find_devices(2, {}, driver(tmp_path, "NVIDIA H100"), tensorflow=False)
    assert (without_driver.gpus, for_processors.gpus) == ((), ())
    assert for_processors.places == 2


@pytest.mark.parametrize(
    ("packages", "uses"), [({"tensorflow-cpu"}, False), ({"tensorflow"}, True), (set(), True)], ids=str
)
def test_tensorflow_for_processors_only_is_known_by_its_package(
    packages: set[str], uses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices_module, "is_installed", packages.__contains__)
    assert bool(find_devices(1, {}, driver(tmp_path, "NVIDIA H100")).gpus) is uses


# --- Giving them ------------------------------------------------------------------------------------------------------


def test_a_run_on_the_processor_has_one_place_however_many_devices_it_makes_of_it() -> None:
    here = Devices(places=2)
    assert here.problem(8) is None
    assert here.take(8, {}) == (CPU,)
    assert here.take(1, {"a": (CPU,), "b": (CPU,)}) is None


def test_a_run_that_asks_for_more_than_there_are_is_told_how_many_there_are() -> None:
    trouble = gpus("0", "1").problem(3)
    assert trouble is not None
    assert trouble.text == "The run asks for 3 devices, and a run can have at most 2 here: H100 (0), H100 (1)."
    assert trouble.hint == "Choose 1 to 2 devices."
    assert gpus("0", "1").problem(2) is None


def test_of_parts_of_gpus_a_run_has_one_because_cuda_shows_no_more() -> None:
    here = gpus("MIG-1", "MIG-2")
    trouble = here.problem(2)
    assert trouble is not None
    assert trouble.hint == "Choose 1 device."
    assert here.take(1, {"a": ("MIG-1",)}) == ("MIG-2",)


def test_a_run_of_which_nobody_knows_what_it_uses_keeps_all_gpus_until_it_ends() -> None:
    assert gpus("0", "1").take(1, {"old": ()}) is None
    assert gpus("0", "1").take(1, {"old": ("7",)}) == ("0",)


def test_the_names_of_what_a_run_was_given_reach_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLEW_DEVICES", raising=False)
    assert devices_module.given() == ()
    here = gpus("0", "1", "2")
    monkeypatch.setenv("CLEW_DEVICES", here.environment(("0", "2"))["CLEW_DEVICES"])
    assert devices_module.given() == ("H100 (0)", "H100 (2)")


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=40), st.integers(1, 4))
def test_nothing_is_given_twice_and_nothing_free_is_kept_back(steps: list[tuple[bool, int]], count: int) -> None:
    here, held = gpus(*map(str, range(count))), dict[str, tuple[str, ...]]()
    for number, (take, asked) in enumerate(steps):
        if take:
            taken = here.take(asked, held)
            assert (taken is None) == (sum(map(len, held.values())) + asked > count)
            if taken is not None:
                assert len(taken) == asked
                held[str(number)] = taken
        elif held:
            del held[next(iter(held))]
        given_out = [one for ids in held.values() for one in ids]
        assert len(set(given_out)) == len(given_out)
        assert set(given_out) <= {gpu.id for gpu in here.gpus}


def test_gpus_that_tensorflow_does_not_see_are_named() -> None:
    there = Devices((Gpu("0", "NVIDIA H100 (0)"), Gpu("1", "NVIDIA H100 (1)")))
    told = unseen(there, seen=0)
    assert told.startswith("This run may use NVIDIA H100 (0), NVIDIA H100 (1), but TensorFlow sees no GPU")
    assert unseen(there, seen=1) == ""
    assert unseen(Devices(), seen=0) == "", "a run on the processor lacks nothing"


# --- Where the peers of a run are put, and the commands that start them there -----------------------------------------

PROGRAM = ("python", "-m", "clew_agent", "peer")


def executable(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_without_a_job_all_are_here() -> None:
    assert read_hosts({}) == JobHosts()
    assert place(3, JobHosts()) == ("", "", "")


@pytest.mark.parametrize(
    ("names", "count", "places"),
    [
        (("node1", "node2"), 2, ("", "node2")),
        (("node2", "node1"), 2, ("", "node2")),  # the agent may be on the second one
        (("node1", "node2", "node3"), 3, ("", "node2", "node3")),
        (("node1", "node2"), 4, ("", "node2", "", "node2")),  # fewer nodes than processes: they take turns
        (("node1", "node2", "node3"), 2, ("", "node2")),
        (("node1",), 2, ("", "")),
    ],
)
def test_workers_take_the_nodes_in_turn(names: tuple[str, ...], count: int, places: tuple[str, ...]) -> None:
    assert place(count, JobHosts(names, here="node1.cluster")) == places


def test_a_name_with_and_without_its_domain_is_one_node() -> None:
    assert same_host("node1", "node1.cluster")
    assert not same_host("node1.a", "node1.b")
    assert not same_host("node1", "node10")


@pytest.mark.unix("a shell script stands in for a scheduler")
def test_slurm_names_its_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path, "scontrol", '[ "$*" = "show hostnames node[1-2]" ] && printf "node1\\nnode2\\n"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = read_hosts({"SLURM_JOB_NODELIST": "node[1-2]", "SLURMD_NODENAME": "node1", "SLURM_CPUS_ON_NODE": "8"})
    assert found == JobHosts(("node1", "node2"), "node1", "srun", cores="8")
    words = found.command("node2", PROGRAM, {})
    assert words[0] == "srun"
    assert {"--overlap", "--nodelist=node2", "--cpus-per-task=8"} < set(words)
    assert words[-len(PROGRAM) :] == PROGRAM
    uneven = {"SLURM_JOB_NODELIST": "node7", "SLURM_CPUS_ON_NODE": "4", "SLURM_JOB_CPUS_PER_NODE": "4,2(x3)"}
    assert read_hosts(uneven).cores == "2"


@pytest.mark.unix("a shell script stands in for a scheduler")
def test_a_slurm_that_does_not_name_its_nodes_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path, "scontrol", "echo 'Invalid hostlist' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ProblemError, match="Invalid hostlist"):
        read_hosts({"SLURM_JOB_NODELIST": "node[1-2]"})


@pytest.mark.unix("a shell script stands in for a scheduler")
@pytest.mark.parametrize(
    ("starter", "begin"),
    [
        ("pbsdsh", ("pbsdsh", "-n", "2", "--", "/usr/bin/env", "CLEW_HOME=/h", "PATH=/bin")),
        (
            "aprun",
            ("aprun", "-q", "-b", "-n", "1", "-N", "1", "-L", "node2", "/usr/bin/env", "CLEW_HOME=/h", "PATH=/bin"),
        ),
    ],
)
def test_pbs_and_a_cray_bring_the_environment_along(tmp_path: Path, starter: str, begin: tuple[str, ...]) -> None:
    executable(tmp_path, starter, "")
    nodes = tmp_path / "nodes"
    nodes.write_text("node1\nnode1\nnode2\nnode2\n")
    found = read_hosts({"PBS_NODEFILE": str(nodes), "PATH": str(tmp_path)})
    assert found == JobHosts(("node1", "node2"), operating_system.host_name(), starter, (0, 2))
    assert found.command("node2", PROGRAM, {"PATH": "/bin", "CLEW_HOME": "/h", "SECRET": "x"}) == (*begin, *PROGRAM)


def test_pbs_without_a_program_that_starts_processes_elsewhere_is_refused(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes"
    nodes.write_text("node1\nnode2\n")
    with pytest.raises(ProblemError, match="neither pbsdsh nor aprun"):
        read_hosts({"PBS_NODEFILE": str(nodes), "PATH": str(tmp_path)})


def test_a_silence_in_which_this_process_slept_is_nobodys_fault() -> None:
    silence = Silence(0.0)
    silence.received(1)
    for now in range(1, 6):
        silence.look(float(now))
    assert silence.seconds(1) == 5.0
    silence.look(3600.0)
    assert silence.seconds(1) == 5.0
    for now in range(3601, 3607):
        silence.look(float(now))
    assert silence.seconds(1) > SILENCE_S
