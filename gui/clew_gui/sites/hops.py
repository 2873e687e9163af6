"""The way to a site as hops: what the site says, completed by what ``~/.ssh/config`` says of each host on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from clew_gui.base.checked_text import split_address
from clew_gui.sites.site import Site
from clew_gui.ssh.config import SshHost
from clew_gui.ssh.connection import Hop
from clew_shared.base.problem import problem

MOST_HOPS = 8
_DEFAULT_KEYS = frozenset(
    f"id_{kind}" for kind in ("rsa", "dsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk", "xmss", "mldsa44_ed25519")
)

Resolve = Callable[[str], SshHost]
"""Returns the configuration of a name; usually ``ssh_config.resolve``."""


def way_to(site: Site, resolve: Resolve) -> tuple[Hop, ...]:
    """Returns all hops to the site's login node, that one last. What the site says overrides the configuration.

    Raises ``ProblemError`` when the configuration leads round in a circle.
    """
    entry = resolve(site.host)
    before = site.jump or entry.jump
    last = _hop(entry, site.host, site.user, site.port, bool(before))
    keys = (site.key,) if site.key else last.keys
    last = msgspec.structs.replace(last, keys=keys, fingerprints=site.fingerprints)
    return (*_chain(before, resolve, site.host, 0), last)


def _hop(entry: SshHost, name: str, user: str, port: int, behind: bool) -> Hop:
    """Makes one hop from the configuration; ``user`` and ``port`` override it. ``behind``: other hops lead to it."""
    there = named_keys(entry.keys)
    return Hop(
        name=name,
        host=entry.host or name,
        port=port or entry.port or 22,
        user=user or entry.user,
        keys=there,
        missing_keys=tuple(path for path in entry.keys if path not in there and not _is_default(path)),
        certificates=tuple(path for path in entry.certificates if Path(path).expanduser().is_file()),
        identities_only=entry.identities_only,
        host_key_alias=entry.host_key_alias,
        known_hosts=tuple(str(Path(path).expanduser()) for path in entry.known_hosts),
        proxy_command="" if behind else entry.proxy_command,
        agent=entry.agent,
        unsupported=entry.unsupported,
    )


def _chain(specs: tuple[str, ...], resolve: Resolve, site: str, depth: int) -> tuple[Hop, ...]:
    """The hops of a ProxyJump list. As in OpenSSH only the first one of it may have jumps of its own."""
    found: list[Hop] = []
    for number, spec in enumerate(specs):
        user, name, port = split_address(spec) or ("", spec, 0)
        entry = resolve(name)
        if number == 0 and entry.jump:
            if depth >= MOST_HOPS:
                text = f"The route to {site} goes in a circle: {name} is reached through {', '.join(entry.jump)}."
                raise problem("ssh.circle", text, "Fix ProxyJump in ~/.ssh/config.", site)
            found += _chain(entry.jump, resolve, site, depth + 1)
        found.append(_hop(entry, name, user, port, bool(found)))
    return tuple(found)


def named_keys(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The key files that were asked for by name. Without any, OpenSSH lists all that it would look for; a file that is
    not there is passed over, as there."""
    if len(paths) > 1 and all(map(_is_default, paths)):
        return ()
    return tuple(path for path in paths if Path(path).expanduser().is_file())


def _is_default(path: str) -> bool:
    return Path(path).name in _DEFAULT_KEYS
