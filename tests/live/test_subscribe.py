"""Feedproxy as the desktop's program for feeds, tested with xdg-mime and xdg-open."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from feedproxy.usm import desktop_integration
from tests.live.product import COMMAND, run
from tests.waiting import PATIENCE

FEED = (
    b'<?xml version="1.0"?><rss version="2.0" xmlns:a="http://www.w3.org/2005/Atom"><channel><title>x</title>'
    b'<link>https://e.example/</link><a:link rel="self" href="https://e.example/rss.xml?a=1&amp;b=2"/></channel></rss>'
)

ATOM = (
    b'<feed xmlns="http://www.w3.org/2005/Atom"><title>x</title>'
    b'<link rel="self" href="https://e.example/rss.xml?a=1&amp;b=2"/></feed>'
)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a separate user with a desktop that no tool knows."""
    made = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "XDG_DATA_DIRS": "/usr/local/share:/usr/share"}
    made |= {f"XDG_{each}_HOME": str(tmp_path / "home" / each.lower()) for each in ("DATA", "CONFIG", "STATE", "CACHE")}
    made["DISPLAY"] = ":0"  # without one, xdg-open runs only browsers in the terminal
    Path(made["HOME"]).mkdir()
    return made


def feedproxy(home: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return run([*COMMAND, "subscribe", *words], Path(home["HOME"]).parent / "command", dict(home))


def tree(home: Mapping[str, str]) -> dict[str, bytes]:
    """Return all files and folders in the user's home."""
    root = Path(home["HOME"])
    found = sorted(root.rglob("*"))
    return {str(each.relative_to(root)): each.read_bytes() if each.is_file() else b"/" for each in found}


def a_reader(tmp_path: Path) -> tuple[str, Path]:
    told, script = tmp_path / "told.txt", tmp_path / "reader"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{told}.part"\nmv "{told}.part" "{told}"\n')
    script.chmod(0o755)
    return str(script), told


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.mark.parametrize("with_tools", [True, False], ids=["xdg-mime", "by hand"])
def test_uninstall_restores_the_previous_state_exactly(home: dict[str, str], with_tools: bool, tmp_path: Path) -> None:
    if with_tools:
        tool("xdg-mime")
    else:
        home["PATH"] = str(tmp_path)
    before = tree(home)

    assert feedproxy(home, "--install", "--reader", "newsboat -x %u").returncode == 0
    installed = tree(home)
    assert (
        b"MimeType=application/rss+xml;application/atom+xml;"
        in installed[f"data/applications/{desktop_integration.ENTRY}"]
    )
    listed = installed["config/mimeapps.list"].decode()
    assert all(f"{kind}={desktop_integration.ENTRY}" in listed for kind in desktop_integration.TYPES)
    assert feedproxy(home, "--install").returncode == 0  # a second run changes nothing else
    assert feedproxy(home, "--uninstall").returncode == 0

    assert tree(home) == before
    assert feedproxy(home, "--uninstall").returncode == 1


def test_existing_list_is_restored_byte_for_byte(home: dict[str, str]) -> None:
    mine = "[Default Applications]\r\napplication/rss+xml=liferea.desktop;\n# mine\n\n[Added Associations]\nx/y=z\n"
    folder = Path(home["XDG_CONFIG_HOME"])
    folder.mkdir()
    (folder / "mimeapps.list").write_bytes(mine.encode())
    before = tree(home)

    assert feedproxy(home, "--install").returncode == 0
    assert feedproxy(home, "--uninstall").returncode == 0

    assert tree(home) == before


def test_uninstall_keeps_changes_that_other_programs_made_after_install(home: dict[str, str]) -> None:
    folder = Path(home["XDG_CONFIG_HOME"])
    folder.mkdir()
    listed = folder / "mimeapps.list"
    listed.write_text("[Default Applications]\napplication/rss+xml=liferea.desktop\n")
    assert feedproxy(home, "--install").returncode == 0
    listed.write_text(listed.read_text() + "text/plain=editor.desktop\n")

    assert feedproxy(home, "--uninstall").returncode == 0

    left = listed.read_text()
    assert "text/plain=editor.desktop" in left
    assert "application/rss+xml=liferea.desktop" in left
    assert desktop_integration.ENTRY not in left


def test_unwritable_file_is_reported_in_one_line(home: dict[str, str]) -> None:
    Path(home["XDG_DATA_HOME"]).write_text("a file")

    done = feedproxy(home, "--install")

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_xdg_mime_names_feedproxy_for_both_types(home: dict[str, str]) -> None:
    asked = tool("xdg-mime")
    assert feedproxy(home, "--install").returncode == 0

    for kind in desktop_integration.TYPES:
        said = subprocess.run([asked, "query", "default", kind], env=home, capture_output=True, text=True, check=False)
        assert said.stdout.strip() == desktop_integration.ENTRY


@pytest.mark.parametrize("name", ["feed.rss", "feed.atom"])
def test_xdg_open_opens_a_downloaded_feed_in_the_reader(home: dict[str, str], tmp_path: Path, name: str) -> None:
    opener, asked = tool("xdg-open"), tool("xdg-mime")
    if " " in COMMAND[0]:
        pytest.skip("xdg-open without a desktop does not start a program with a blank in its path")
    file = tmp_path / name
    file.write_bytes(FEED if name == "feed.rss" else ATOM)
    kind = subprocess.run([asked, "query", "filetype", file], env=home, capture_output=True, text=True, check=False)
    if kind.stdout.strip() not in desktop_integration.TYPES:
        pytest.skip(f"this system takes {name} for {kind.stdout.strip() or 'nothing'}: no shared MIME database")
    reader, told = a_reader(tmp_path)
    assert feedproxy(home, "--install", "--reader", f"{reader} --add").returncode == 0

    opened = subprocess.run([opener, file], env=home, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert opened.returncode == 0, opened.stderr
    assert told.read_text().splitlines() == ["--add", "https://e.example/rss.xml?a=1&b=2"]
