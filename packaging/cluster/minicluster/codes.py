"""One-time codes (TOTP, RFC 6238: SHA-1, 30 s, 6 digits)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
import time

from minicluster.plan import User
from minicluster.problem import ClusterError
from minicluster.state import State

STEP_S = 30
AHEAD = 90
"""How many steps ahead of the clock a code may be. pam_oath's window is 100 (templates/etc/pam.d/sshd-otp); the others
are for the time between making a code and typing it."""


def code(secret: str, step: int) -> str:
    """The code of a time step, from a base32 secret."""
    digest = hmac.new(base64.b32decode(secret), struct.pack(">Q", step), hashlib.sha1).digest()
    start = digest[-1] & 15
    number = struct.unpack(">I", digest[start : start + 4])[0] & 0x7FFFFFFF
    return f"{number % 1_000_000:06}"


def fresh_code(state: State, user: User) -> str:
    """A code that was not handed out before: each works for one login, and nobody wants to wait half a minute.

    Raises:
        ClusterError: too many were taken at once.
    """
    now = int(time.time()) // STEP_S
    step = max(now, state.codes.get(user.name, 0) + 1)
    if step > now + AHEAD:
        raise ClusterError(f"{AHEAD} codes of {user.name} were taken within seconds", f"Wait {STEP_S} s for the next.")
    state.codes[user.name] = step
    state.save()
    return code(user.otp_secret, step)


def oath_line(user: User) -> str:
    """The user's line in pam_oath's file."""
    return f"HOTP/T{STEP_S}/6 {user.name} - {base64.b32decode(user.otp_secret).hex()}\n"
