"""NVIDIA GPUs as their driver's library (NVML) describes them, through the package nvidia-ml-py where that is there."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from clew_agent.node.devices import find_devices
from clew_agent.node.pulse.sources import Readings

_SLOWED = 0x08 | 0x20 | 0x40 | 0x80
"""Reasons that NVML gives for lower clocks: the hardware, the driver or the hardware because of heat, and its power
supply. A limit on its power is none of them: many cards reach it whenever they are busy."""


class Gpus:
    """The GPUs with these ids, which are as in CUDA_VISIBLE_DEVICES; those of this process when none are given.

    Raises ``ImportError`` where the package is missing, and NVML's own error where the driver does not answer.
    """

    def __init__(self, ids: Sequence[str] | None = None) -> None:
        found = tuple(gpu.id for gpu in find_devices(1).gpus) if ids is None else tuple(ids)
        self._cards: dict[int, Any] = {}
        self._slices: set[int] = set()
        if not found:
            return
        self._nvml = importlib.import_module("pynvml")
        self._nvml.nvmlInit()
        for number, one in enumerate(found):
            with suppress(self._nvml.NVMLError):
                self._cards[number] = self._handle(one)
                if one.startswith("MIG-"):
                    self._slices.add(number)

    def _handle(self, one: str) -> Any:
        if one.isdecimal():  # NVML counts in the order of the PCI bus, as Clew has CUDA do
            return self._nvml.nvmlDeviceGetHandleByIndex(int(one))
        return self._nvml.nvmlDeviceGetHandleByUUID(one)

    def read(self, now: float) -> Readings:
        """Use, memory, power, temperature and clock of each; of a part of a GPU (MIG) only its memory is its own."""
        found: Readings = {}
        for number in list(self._cards):
            found |= self._read(number)
        return found

    def _read(self, number: int) -> Readings:
        nvml, card, found = self._nvml, self._cards[number], Readings()
        readers: list[Callable[[], Readings]] = [lambda: _memory(nvml.nvmlDeviceGetMemoryInfo(card))]
        if number not in self._slices:
            readers += [
                lambda: {"use": nvml.nvmlDeviceGetUtilizationRates(card).gpu / 100},
                lambda: {"power": nvml.nvmlDeviceGetPowerUsage(card) / 1000},
                lambda: {"temperature": float(nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU))},
                lambda: {"throttled": float(bool(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(card) & _SLOWED))},
                lambda: {"clock": float(nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM))},
            ]
        for reader in readers:
            try:
                found |= {f"gpu{number}_{name}": value for name, value in reader().items()}
            except nvml.NVMLError as error:
                if error.value == nvml.NVML_ERROR_GPU_IS_LOST:  # it stays lost, and asking again may take seconds
                    del self._cards[number]
                    break
        return found


def _memory(info: Any) -> Readings:
    return {"memory": float(info.used), "memory_limit": float(info.total)}
