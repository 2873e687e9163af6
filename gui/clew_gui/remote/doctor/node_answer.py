"""What the doctor's job said of the node that it ran on."""

from __future__ import annotations

import msgspec


class NodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``host`` is the node's own name. ``python`` is empty where the login node's Python does not run there.

    ``clock`` is seconds since 1970 when it was written, ``gpus`` what the scheduler gave (``CUDA_VISIBLE_DEVICES``)
    and ``cards`` what ``nvidia-smi`` lists. ``port`` is one that was free, 0 when none of the site's was. ``reached``:
    the login node could connect to it. ``tensorflow`` is the version once it was imported there, ``devices`` how many
    GPUs it sees, ``trouble`` why it could not be imported. ``ahead`` is how much its clock is ahead of this
    computer's, in seconds, and ``refusal`` what the login node said instead of connecting.
    """

    host: str
    python: str = ""
    clock: float = 0.0
    gpus: str = ""
    cards: tuple[str, ...] = ()
    port: int = 0
    tensorflow: str = ""
    devices: int = 0
    trouble: str = ""
    reached: bool = False
    refusal: str = ""
    ahead: float = 0.0
