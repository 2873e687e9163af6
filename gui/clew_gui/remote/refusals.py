"""A server that did not let somebody in, as sentences."""

from __future__ import annotations

from collections.abc import Sequence

from clew_gui.remote.prompts import Kind
from clew_shared.problem import ProblemError, problem


def refused_answers(title: str, kinds: set[Kind]) -> ProblemError:
    """A password or a code was wrong, or the server says so of both."""
    if kinds == {Kind.PASSWORD}:
        hint = "Type it again. If it is right, the account may be locked for a while, or it is another user name there."
        return problem("ssh.password", f"The password for {title} was refused.", hint, title)
    what = "The password or the one-time code" if Kind.PASSWORD in kinds else "The one-time code"
    hint = "A code works once and for half a minute: wait for the next one. The clock of the phone must be right."
    return problem("ssh.code", f"{what} for {title} was refused.", hint, title)


def refused_keys(title: str, tried: Sequence[str], allowed: Sequence[str], kept_back: int = 0) -> ProblemError:
    """No key fits; so many of the agent were not offered."""
    offered = ", ".join(dict.fromkeys(tried)) or "nothing, because there is no key here"
    offered += f"; not {kept_back} more of the agent, since servers hang up after some" if kept_back else ""
    wants = f" It takes: {', '.join(allowed)}." if allowed else ""
    hint = "Put your public key into ~/.ssh/authorized_keys there (ssh-copy-id), or name the right one with --key FILE."
    return problem("ssh.auth", f"{title} let nobody in; offered were: {offered}.{wants}", hint, title)
