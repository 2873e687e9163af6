"""What a desktop reads of a program: its name, its icon, and which files it opens. Each system has its own way to be
told: files on Linux and macOS, a script for Windows."""

from __future__ import annotations

import io
import os
import plistlib
import shlex
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

NAME = "Clew"
ABOUT = "Run deep-learning exercises and watch them converge"
PROGRAM = "clew-window"
HANDIN, COURSE = ".clew.zip", ".clew-course"
KINDS = (("handin", "Clew hand-in", HANDIN), ("course", "Clew course", COURSE))
"""The files that the window opens: the word in their type's name, what they are called, how their names end."""


class DesktopEntry(NamedTuple):
    """What makes an entry: files by path, the paths that go with it when it is removed, and programs that say so to the
    desktop; a program that is not there or fails loses only that the entry is seen at once. Where ``script`` is not
    empty, PowerShell must do it."""

    files: Mapping[Path, bytes]
    made: Sequence[Path]
    announce: Sequence[Sequence[str]] = ()
    script: str = ""
    removal: str = ""


Make = Callable[[Sequence[str], Path], DesktopEntry]


def window_program(environment: Mapping[str, str] = os.environ, python: str = sys.executable) -> list[str]:
    """The words that open the window from anywhere; a file to open may follow.

    An AppImage is found under another path each time that it runs, and says itself where it lies.
    """
    if image := environment.get("APPIMAGE"):
        return [image, "start"]
    folder = Path(python).parent
    places = [place / f"{PROGRAM}{ending}" for place in (folder, folder.parent) for ending in ("", ".exe")]
    found = next((place for place in places if place.is_file()), None)
    return [str(found)] if found is not None else [python, "-P", "-m", "clew_gui", "start"]


def picture(name: str) -> bytes:
    """Clew's icon: ``icon.svg`` or ``icon.png``, of 256 × 256 pixels."""
    return files("clew_gui.views.theme").joinpath("pictures", name).read_bytes()


# --- Linux ------------------------------------------------------------------------------------------------------------


def linux(words: Sequence[str], folder: Path) -> DesktopEntry:
    """The entry of desktops that follow freedesktop.org, below ``folder`` (``~/.local/share``, or ``/usr/share``)."""
    found = {
        folder / "applications" / "clew.desktop": desktop_file(words).encode(),
        folder / "icons" / "hicolor" / "scalable" / "apps" / "clew.svg": picture("icon.svg"),
        folder / "mime" / "packages" / "clew.xml": _MIME.encode(),
    }
    announce = (
        ("update-mime-database", str(folder / "mime")),
        ("update-desktop-database", "-q", str(folder / "applications")),
    )
    return DesktopEntry(found, list(found), announce)


def desktop_file(words: Sequence[str]) -> str:
    """The Desktop Entry Specification's file."""
    return "\n".join([
        "[Desktop Entry]",
        "Type=Application",
        f"Name={NAME}",
        f"Comment={ABOUT}",
        f"Exec={' '.join(map(_quoted, words))} %f",
        "Icon=clew",
        "Terminal=false",
        "StartupWMClass=clew",
        "Categories=Education;Science;",
        f"MimeType={''.join(f'application/x-clew-{kind};' for kind, _, _ in KINDS)}",
        "",
    ])  # fmt: skip


def _quoted(word: str) -> str:
    """A word of Exec: quoted, its backslashes doubled once more for the file's own escapes."""
    word = word.replace("%", "%%")
    for sign in '\\"`$':
        word = word.replace(sign, f"\\{sign}")
    return '"' + word.replace("\\", "\\\\") + '"'


_TYPES = "".join(
    f"""
  <mime-type type="application/x-clew-{kind}">
    <comment>{about}</comment>
    <icon name="clew"/>
    <sub-class-of type="application/zip"/>
    <glob pattern="*{ending}"/>
  </mime-type>"""
    for kind, about, ending in KINDS
)
_MIME = f"""<?xml version="1.0" encoding="UTF-8"?>
<mime-info xmlns="http://www.freedesktop.org/standards/shared-mime-info">
{_TYPES}
</mime-info>
"""


# --- macOS ------------------------------------------------------------------------------------------------------------


def macos(words: Sequence[str], folder: Path) -> DesktopEntry:
    """An application in ``folder`` (``~/Applications``) that starts the program, for the Finder and the Dock."""
    app = folder / f"{NAME}.app"
    content = app / "Contents"
    found = {
        content / "Info.plist": plistlib.dumps(_INFO),
        content / "MacOS" / "clew": f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'.encode(),
        content / "Resources" / "clew.icns": icns(picture("icon.png")),
    }
    return DesktopEntry(found, [app])


_ICNS = {b"ic11": 32, b"ic12": 64, b"ic07": 128, b"ic08": 256}
"""Apple's names of the sizes that are PNG files on every macOS."""
_INFO = {
    "CFBundleName": NAME,
    "CFBundleIdentifier": "clew.window",
    "CFBundlePackageType": "APPL",
    "CFBundleExecutable": "clew",
    "CFBundleIconFile": "clew",
    "NSHighResolutionCapable": True,
    # A script has no architecture: without this, macOS may run it, and Python with it, as if on an Intel processor.
    "LSArchitecturePriority": ["arm64", "x86_64"],
    # macOS looks at what follows a name's last dot, so hand-ins are archives to it: Clew is among what opens those.
    "CFBundleDocumentTypes": [
        *(
            {"CFBundleTypeName": about, "CFBundleTypeRole": "Viewer", "LSItemContentTypes": [f"clew.{kind}"]}
            for kind, about, _ in KINDS
        ),
        {
            "CFBundleTypeName": "ZIP archive",
            "CFBundleTypeRole": "Viewer",
            "LSHandlerRank": "Alternate",
            "LSItemContentTypes": ["public.zip-archive"],
        },
    ],
    "UTExportedTypeDeclarations": [
        {
            "UTTypeIdentifier": f"clew.{kind}",
            "UTTypeDescription": about,
            "UTTypeConformsTo": ["public.zip-archive"],
            "UTTypeTagSpecification": {"public.filename-extension": [ending[1:]]},
        }
        for kind, about, ending in KINDS
    ],
}


def icns(png: bytes) -> bytes:
    """A picture of 256 × 256 pixels as macOS keeps icons, in the sizes of the Finder, the Dock and their menus."""
    pictures = {kind: _scaled(png, side) for kind, side in _ICNS.items()}
    chunks = b"".join(kind + struct.pack(">I", 8 + len(data)) + data for kind, data in pictures.items())
    return b"icns" + struct.pack(">I", 8 + len(chunks)) + chunks


def _scaled(png: bytes, side: int) -> bytes:
    from PIL import Image  # late: what Clew has without its window has none

    made = io.BytesIO()
    Image.open(io.BytesIO(png)).resize((side, side), Image.Resampling.LANCZOS).save(made, "PNG")
    return made.getvalue()


# --- Windows ----------------------------------------------------------------------------------------------------------


def windows(words: Sequence[str], folder: Path) -> DesktopEntry:
    """A link in the start menu, with its icon in ``folder``, an entry in the menu of hand-ins, and the program for
    courses.

    Windows knows files by what follows the last dot, so a hand-in is a zip archive to it: the entry is for archives
    whose names end as those of hand-ins.
    """
    icon = folder / "clew.ico"
    program, *rest = words
    line = " ".join(f'"{word}"' for word in (*words, "%1"))
    script = f"""
$ErrorActionPreference = 'Stop'
$link = (New-Object -ComObject WScript.Shell).CreateShortcut({_LINK})
$link.TargetPath = {_literal(program)}
$link.Arguments = {_literal(" ".join(rest))}
$link.IconLocation = {_literal(str(icon))}
$link.Description = {_literal(ABOUT)}
$link.Save()
New-Item -Path {_literal(_COMMAND)} -Force | Out-Null
Set-ItemProperty -Path {_literal(_KEY)} -Name '(Default)' -Value 'Check with Clew'
Set-ItemProperty -Path {_literal(_KEY)} -Name 'AppliesTo' -Value 'System.FileName:"*{HANDIN}"'
Set-ItemProperty -Path {_literal(_KEY)} -Name 'Icon' -Value {_literal(str(icon))}
Set-ItemProperty -Path {_literal(_COMMAND)} -Name '(Default)' -Value {_literal(line)}
New-Item -Path {_literal(_COURSE)} -Value 'Clew.Course' -Force | Out-Null
New-Item -Path {_literal(_OPENING)} -Value {_literal(line)} -Force | Out-Null
"""
    removal = f"""
Remove-Item -Path {_LINK} -ErrorAction SilentlyContinue
Remove-Item -Path {_literal(_KEY)}, {_literal(_COURSE)}, {_literal(_OPENS)} -Recurse -ErrorAction SilentlyContinue
"""
    return DesktopEntry({icon: ico(picture("icon.png"))}, [icon], script=script, removal=removal)


_LINK = f"([Environment]::GetFolderPath('Programs') + '\\{NAME}.lnk')"
_CLASSES = "HKCU:\\Software\\Classes"
_KEY = f"{_CLASSES}\\SystemFileAssociations\\.zip\\shell\\clew"
_COURSE, _OPENS = f"{_CLASSES}\\{COURSE}", f"{_CLASSES}\\Clew.Course"
_OPENING = f"{_OPENS}\\shell\\open\\command"
_COMMAND = f"{_KEY}\\command"


def _literal(text: str) -> str:
    """A text as PowerShell takes it without looking into it."""
    return "'" + text.replace("'", "''") + "'"


def ico(png: bytes) -> bytes:
    """A picture of 256 × 256 pixels (0 in this format) as Windows keeps icons."""
    return struct.pack("<3H", 0, 1, 1) + struct.pack("<4B2H2I", 0, 0, 0, 0, 1, 32, len(png), 22) + png
