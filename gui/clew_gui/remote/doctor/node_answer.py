"""What the doctor's job said of the node that it ran on."""

from __future__ import annotations

import msgspec

from clew_shared.problem import Problem


class NodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``host`` is the node's own name. ``python`` is empty where the login node's Python does not run there.

    ``clock`` is seconds since 1970 when it was written, ``gpus`` what the scheduler gave (``CUDA_VISIBLE_DEVICES``)
    and ``cards`` what ``nvidia-smi`` lists. ``port`` is one that was free, 0 when none of the site's was.
    ``tensorflow`` is the version once it was imported there, ``devices`` how many GPUs it sees, ``trouble`` why it
    could not be.

    The rest is seen from outside while the job ran. ``reached``: the login node could connect to the port; ``refusal``
    is what it said instead. ``ahead``: how many seconds the node's clock is ahead of this computer's. ``no_login``: why
    one could not log in there by SSH; None: one could.
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
    no_login: Problem | None = None
    ahead: float = 0.0
