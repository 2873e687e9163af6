"""``make packages``: writes what can be installed without a checkout: a wheel, a source archive, a folder for
Windows and a package for Debian and Ubuntu. The same checkout gives the same bytes."""

from __future__ import annotations

import hashlib
import subprocess
import sys

from linux.debian import can_write, write_package
from wheels import ROOT
from windows.folder import write_folder

from clew_shared import __version__

DIST = ROOT / "dist"


def main() -> None:
    """Builds all packages."""
    DIST.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(DIST)], cwd=ROOT, check=True)
    (wheel,) = DIST.glob(f"clew-{__version__}-*.whl")
    write_folder(wheel, DIST / f"clew-{__version__}-windows.zip")
    if can_write():
        write_package(wheel, DIST / f"clew-{__version__}-amd64.deb")
    else:
        print(
            "The package for Debian is made on Debian 12 on x86-64 only: its Python and dpkg-deb are needed.",
            file=sys.stderr,
        )
    for path in sorted(DIST.glob(f"clew-{__version__}*")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {digest}  {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
