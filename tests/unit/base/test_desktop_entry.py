"""What desktops are told of Clew, on each system; and the command that adds and removes it, on this one."""

from __future__ import annotations

import configparser
import io
import plistlib
import re
import stat
import struct
import subprocess
from pathlib import Path
from xml.dom import minidom

import pytest
from PIL import Image

from clew_gui.base import desktop_entry
from clew_gui.base.desktop_entry import icns, ico, picture, window_program
from clew_gui.commands import desktop_entry as command
from clew_gui.commands.main import main
from clew_gui.courses.course_file import SUFFIX as COURSE_SUFFIX
from clew_gui.reports.handin import SUFFIX
from clew_shared.base import operating_system

ODD = ['/home/o\'brien/my "own" $HOME/100 %/clew-window', "start"]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that writes down with which words it was started, in a folder with an unusual name."""
    path = tmp_path / 'it\'s 100 % "$mine"' / "clew-window"
    path.parent.mkdir()
    path.write_text('#!/bin/sh\nfor word; do echo "$word"; done > "$0.words"\n')
    path.chmod(0o755)
    return path


def test_the_program_is_the_one_beside_the_python(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    assert window_program({}, str(python)) == [str(python), "-P", "-m", "clew_gui", "start"]
    (tmp_path / "clew-window.exe").touch()
    assert window_program({}, str(python)) == [str(tmp_path / "clew-window.exe")], "a folder for Windows"
    (tmp_path / "bin" / "clew-window").touch()
    assert window_program({}, str(python)) == [str(tmp_path / "bin" / "clew-window")]
    assert window_program({"APPIMAGE": "/apps/clew"}, str(python)) == ["/apps/clew", "start"]


def exec_words(line: str) -> list[str]:
    """Exec as the Desktop Entry Specification has it read: the file's escapes, then quotes, then field codes."""
    words = re.findall(r'"((?:\\.|[^"\\])*)"|(\S+)', line.replace("\\\\", "\\"))
    return [re.sub(r"\\(.)", r"\1", quoted or bare).replace("%%", "%") for quoted, bare in words]


def test_linux_reads_the_program_the_icon_and_the_kind_of_file(tmp_path: Path) -> None:
    entry = desktop_entry.linux(ODD, tmp_path)
    assert set(entry.files) == set(entry.made)
    parser = configparser.RawConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(entry.files[tmp_path / "applications" / "clew.desktop"].decode())
    found = parser["Desktop Entry"]
    assert exec_words(found["Exec"]) == [*ODD, "%f"]
    assert (found["Type"], found["Icon"]) == ("Application", "clew")
    assert (tmp_path / "icons/hicolor/scalable/apps/clew.svg") in entry.files
    kinds = minidom.parseString(entry.files[tmp_path / "mime" / "packages" / "clew.xml"])  # noqa: S318  # our own
    types = [kind.getAttribute("type") for kind in kinds.getElementsByTagName("mime-type")]
    assert types == ["application/x-clew-handin", "application/x-clew-course"]
    assert found["MimeType"] == "".join(f"{kind};" for kind in types)
    globs = [glob.getAttribute("pattern") for glob in kinds.getElementsByTagName("glob")]
    assert globs == [f"*{SUFFIX}", f"*{COURSE_SUFFIX}"]


@pytest.mark.unix("a shell")
def test_macos_gets_an_application_that_starts_the_program_with_the_file(tmp_path: Path, program: Path) -> None:
    entry = desktop_entry.macos([str(program), "start"], tmp_path)
    content = tmp_path / "Clew.app" / "Contents"
    info = plistlib.loads(entry.files[content / "Info.plist"])
    assert content / "MacOS" / info["CFBundleExecutable"] in entry.files
    assert content / "Resources" / f"{info['CFBundleIconFile']}.icns" in entry.files
    endings = {one["UTTypeIdentifier"]: one["UTTypeTagSpecification"] for one in info["UTExportedTypeDeclarations"]}
    assert [f".{one['public.filename-extension'][0]}" for one in endings.values()] == [SUFFIX, COURSE_SUFFIX]
    *own, archives = info["CFBundleDocumentTypes"]
    assert [kind for one in own for kind in one["LSItemContentTypes"]] == list(endings)
    assert (archives["LSItemContentTypes"], archives["LSHandlerRank"]) == (["public.zip-archive"], "Alternate")
    assert info["LSArchitecturePriority"][0] == "arm64", "a script would be started for Intel processors"
    script = entry.files[content / "MacOS" / "clew"]
    subprocess.run(["sh", "-c", script.decode(), "clew", "a b.clew.zip"], check=True)
    assert Path(f"{program}.words").read_text().splitlines() == ["start", "a b.clew.zip"]


def test_windows_gets_a_link_and_an_entry_in_the_menu_of_hand_ins_and_opens_courses(tmp_path: Path) -> None:
    entry = desktop_entry.windows(["C:\\Users\\O'Brien\\clew\\clew-window.exe"], tmp_path)
    lines = entry.script.strip().splitlines()
    assert "$link.TargetPath = 'C:\\Users\\O''Brien\\clew\\clew-window.exe'" in lines
    assert """-Value 'System.FileName:"*.clew.zip"'""" in entry.script
    opens = """-Value '"C:\\Users\\O''Brien\\clew\\clew-window.exe" "%1"'"""
    assert [line.split("'")[1][-12:] for line in lines if opens in line] == ["clew\\command", "open\\command"]
    (ending,) = [line for line in lines if "-Value 'Clew.Course'" in line]
    assert f"Classes\\{COURSE_SUFFIX}'" in ending
    made = {word for word in entry.script.split("'") if word.startswith("HKCU:")}
    removed = {word for word in entry.removal.split("'") if word.startswith("HKCU:")}
    left = {word for word in made if not any(word == root or word.startswith(f"{root}\\") for root in removed)}
    assert left == set()
    assert len(removed) == 3
    assert set(entry.files) == set(entry.made) == {tmp_path / "clew.ico"}


def test_icons_hold_the_picture_as_each_system_reads_it() -> None:
    png = picture("icon.png")
    assert struct.unpack(">2I", png[16:24]) == (256, 256)
    whole = icns(png)
    assert (whole[:4], struct.unpack(">I", whole[4:8])) == (b"icns", (len(whole),))
    found, place = {}, 8
    while place < len(whole):
        kind, (length,) = whole[place : place + 4].decode(), struct.unpack(">I", whole[place + 4 : place + 8])
        found[kind] = Image.open(io.BytesIO(whole[place + 8 : place + length])).size[0]
        place += length
    assert found == {"ic11": 32, "ic12": 64, "ic07": 128, "ic08": 256}
    image = ico(png)
    size, offset = struct.unpack("<2I", image[14:22])
    assert image[offset : offset + size] == png


# --- The command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(operating_system, "NAME", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    return tmp_path / "share"


def test_what_the_command_adds_it_takes_away_again(data_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["desktop-entry"]) == 0
        assert capsys.readouterr().out == "Clew is among the programs of the desktop.\n"
        assert (data_home / "applications" / "clew.desktop").is_file()
    for _ in range(2):
        assert main(["desktop-entry", "--remove"]) == 0
        assert capsys.readouterr().out == "Clew is no longer among the programs of the desktop.\n"
        assert not list(data_home.rglob("*clew*"))


def test_a_folder_that_cannot_be_written_is_refused(data_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_home.write_text("a file")
    assert main(["desktop-entry"]) == 2
    assert "cannot be changed" in capsys.readouterr().err


@pytest.mark.unix("a shell, and modes of files")
def test_the_application_of_macos_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating_system, "NAME", "darwin")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    app = tmp_path / "Applications" / "Clew.app"
    assert main(["desktop-entry"]) == 0
    assert (app / "Contents" / "MacOS" / "clew").stat().st_mode & stat.S_IXUSR
    assert main(["desktop-entry", "--remove"]) == 0
    assert not app.exists()


def test_what_powershell_refuses_is_said(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(operating_system, "NAME", "win32")
    asked: list[list[str]] = []

    def run(words: list[str]) -> subprocess.CompletedProcess[bytes]:
        asked.append(words)
        return subprocess.CompletedProcess(words, 1, b"", b"Access is denied.\n")

    monkeypatch.setattr(command, "_run", run)
    assert main(["desktop-entry"]) == 2
    assert "The start menu cannot be changed: Access is denied." in capsys.readouterr().err
    assert asked[0][0] == "powershell"
