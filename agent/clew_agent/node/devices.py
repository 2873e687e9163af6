"""The devices that this agent may give to runs: which of them are free, and how a run learns which are its own.

With NVIDIA GPUs each run has as many of them as its spec asks for, to itself. Without any, runs share the processor, a
bounded number at a time; several devices then mean logical ones inside one run. No TensorFlow: the supervisor asks, and
the driver's own files answer, because asking the driver through a program takes a second or more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from clew_shared.base.installation import CUDA, how_to_install
from clew_shared.base.problem import Problem

Held = Mapping[str, tuple[str, ...]]
"""The ids of the devices that each run has. None at all: the run began under an agent that kept no account of them."""
CPU = "CPU"
GIVEN = "CLEW_DEVICES"
"""Environment variable with the names of what a run was given, one a line, for its journal."""
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"
CHOICE = frozenset({_VISIBLE, _ORDER})
"""The environment variables that choose a run's GPUs. CUDA reads them when something is first computed."""
_BY_BUS = "PCI_BUS_ID"
_NVIDIA = Path("/proc/driver/nvidia")
_WINDOWS_HOST = Path("/dev/dxg")
"""The path through which Linux inside Windows reaches the GPUs; it has no files of the driver."""
_VALID = re.compile(r"\d+|GPU-[0-9A-Fa-f-]+|MIG-[\w/-]+")


class Gpu(msgspec.Struct, frozen=True):
    """``id`` as CUDA_VISIBLE_DEVICES names it, ``name`` for people: ``NVIDIA H100 (0)``."""

    id: str
    name: str

    @property
    def slice(self) -> bool:
        """Whether it is a part of a GPU (MIG). CUDA shows a process one of them at most."""
        return self.id.startswith("MIG-")


class Devices(msgspec.Struct, frozen=True):
    """The devices that an agent may give: its GPUs, or ``places`` for runs on the processor. Knows nothing of who has
    what.

    ``by_bus``: the ids are the GPUs' numbers in the order of the PCI bus; CUDA must be set to count in the same order.
    """

    gpus: tuple[Gpu, ...] = ()
    places: int = 1
    by_bus: bool = False

    def problem(self, asked: int) -> Problem | None:
        """Says why a run that asks for so many devices can never have them here; None when it can."""
        most = max(sum(not gpu.slice for gpu in self.gpus), 1)
        if not self.gpus or asked <= most:
            return None
        there = ", ".join(gpu.name for gpu in self.gpus)
        text = f"The run asks for {asked} devices, and a run can have at most {most} here: {there}."
        return Problem("spec.devices", text, f"Choose {_from_one_to(most)}.", "devices")

    def take(self, asked: int, held: Held) -> tuple[str, ...] | None:
        """The ids of ``asked`` free devices, or of a place on the processor; None when not so many are free."""
        if not self.gpus:
            return (CPU,) if len(held) < self.places else None
        free = [gpu.id for gpu in self._free(held) if asked == 1 or not gpu.slice]
        return tuple(free[:asked]) if len(free) >= asked else None

    def _free(self, held: Held) -> list[Gpu]:
        if not all(held.values()):  # a run of which nobody noted what it has may use any of them
            return []
        taken = {one for ids in held.values() for one in ids}
        return [gpu for gpu in self.gpus if gpu.id not in taken]

    def names(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Devices in words; one that is not here any more by its id."""
        known = {gpu.id: gpu.name for gpu in self.gpus}
        return tuple(known.get(one, one) for one in ids)

    def environment(self, ids: tuple[str, ...]) -> dict[str, str]:
        """Returns the variables that the processes of a run need in their environment to see its own devices only."""
        given = {GIVEN: "\n".join(self.names(ids))}
        if not self.gpus:
            return given
        return given | {_VISIBLE: ",".join(ids)} | ({_ORDER: _BY_BUS} if self.by_bus else {})


def _from_one_to(most: int) -> str:
    return "1 device" if most == 1 else f"1 to {most} devices"


def given() -> tuple[str, ...]:
    """Returns, in a run's own process, the names of the devices that it was given; none when nobody said."""
    return tuple(name for name in os.environ.get(GIVEN, "").split("\n") if name)


def unseen(devices: Devices, seen: int) -> str:
    """Says that TensorFlow, which has ``seen`` so many GPUs, sees none of those that are there; empty otherwise."""
    if seen or not devices.gpus:
        return ""
    there = ", ".join(gpu.name for gpu in devices.gpus)
    return (
        f"This run may use {there}, but TensorFlow sees no GPU and trains on the processor. Load the site's module for "
        f"CUDA, or install a TensorFlow that has it. {how_to_install(*CUDA)}."
    )


# --- Finding them -----------------------------------------------------------------------------------------------------


class _Card(msgspec.Struct, frozen=True):
    """A GPU as the driver describes it."""

    model: str
    uuid: str


def find_devices(
    places: int, environment: Mapping[str, str] = os.environ, nvidia: Path = _NVIDIA, tensorflow: bool | None = None
) -> Devices:
    """The GPUs that CUDA_VISIBLE_DEVICES names, or all when it is not set; without any, ``places`` on the processor.

    ``tensorflow`` says whether the installed TensorFlow can use GPUs at all (None: looked up).
    """
    cards = tuple(_cards(nvidia))
    there = bool(cards) or (nvidia / "version").exists() or _WINDOWS_HOST.exists()
    if not there or not (_uses_gpus() if tensorflow is None else tensorflow):
        return Devices(places=places)
    visible = environment.get(_VISIBLE)
    if visible is None:
        gpus = tuple(Gpu(str(number), f"{card.model} ({number})") for number, card in enumerate(cards))
        return Devices(gpus, places, by_bus=True)
    by_bus = environment.get(_ORDER) == _BY_BUS
    return Devices(tuple(Gpu(one, _name(one, cards, by_bus)) for one in _named(visible, len(cards))), places)


def _uses_gpus() -> bool:
    """TensorFlow for processors only is a package of its own; which one is installed is read, not imported."""
    return not is_installed("tensorflow-cpu") or is_installed("tensorflow")


def is_installed(package: str) -> bool:
    """Whether this Python has the package."""
    from importlib import metadata  # takes longer than all the rest here; asked only where there is a GPU

    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _named(visible: str, cards: int) -> Iterator[str]:
    """The devices in CUDA_VISIBLE_DEVICES, read as CUDA does: up to the first that cannot be one, such as -1."""
    seen: set[str] = set()
    for word in visible.split(","):
        one = word.strip()
        if not _VALID.fullmatch(one) or one in seen or (cards and one.isdecimal() and int(one) >= cards):
            return
        seen.add(one)
        yield one


def _name(one: str, cards: tuple[_Card, ...], by_bus: bool) -> str:
    """A device in words. By its number alone it is known only when CUDA counts as the bus does, or all are alike."""
    if one.startswith("MIG-"):
        return f"part of a GPU ({one[:12]})"
    if not one.isdecimal():
        model = next((card.model for card in cards if card.uuid.startswith(one)), "GPU")
        return f"{model} ({one[:12]})"
    alike = len({card.model for card in cards}) == 1
    return f"{cards[int(one)].model if alike or (by_bus and cards) else 'GPU'} ({one})"


def _cards(nvidia: Path) -> Iterator[_Card]:
    """Yields the card of each GPU, in the order of the PCI bus, by which their folders are named."""
    for path in sorted(nvidia.glob("gpus/*/information")):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if fields.get("GPU Excluded") != "Yes":
            yield _Card(fields.get("Model") or "NVIDIA GPU", fields.get("GPU UUID", ""))
