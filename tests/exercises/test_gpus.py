"""Which GPUs a run uses and how it takes their memory, on nodes that this computer is not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from clew_agent.training import runtime


class Node:
    """TensorFlow's configuration on a node with GPUs, before TensorFlow has run anything."""

    def __init__(self, gpus: int) -> None:
        self.gpus = [f"GPU:{number}" for number in range(gpus)]
        self.visible, self.growing = list(self.gpus), set[str]()
        self.threading = self.optimizer = self.experimental = self

    def list_physical_devices(self, kind: str) -> list[str]:
        return self.gpus if kind == "GPU" else ["CPU:0"]

    def get_visible_devices(self, _: str) -> list[str]:
        return self.visible

    def set_visible_devices(self, gpus: list[str], _: str) -> None:
        self.visible = gpus

    def set_memory_growth(self, gpu: str, grows: bool) -> None:
        (self.growing.add if grows else self.growing.discard)(gpu)

    def enable_op_determinism(self) -> None:
        pass


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with four GPUs."""
    made = Node(4)
    fake = SimpleNamespace(config=made, random=SimpleNamespace(set_seed=lambda _: None))
    monkeypatch.setattr(runtime, "tf", fake)
    return made


def test_a_run_uses_as_many_gpus_as_it_asks_for_and_leaves_their_memory_to_others(node: Node) -> None:
    runtime.configure(devices=2)
    assert node.visible == ["GPU:0", "GPU:1"]
    assert node.growing == {"GPU:0", "GPU:1"}


@pytest.mark.parametrize(("place", "uses"), [(0, ["GPU:0"]), (2, ["GPU:2"]), (5, ["GPU:1"]), (None, [])])
def test_processes_that_share_a_node_each_use_the_gpu_of_their_turn(
    node: Node, place: int | None, uses: list[str]
) -> None:
    runtime.share_gpus(place)
    runtime.configure()
    assert node.visible == uses
    assert node.growing == set(uses)
