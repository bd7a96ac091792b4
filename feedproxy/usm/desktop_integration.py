"""Registration of feedproxy as the desktop's program for feeds (Desktop Entry Specification; Association between MIME
types and applications; XDG Base Directory Specification)."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import asdict

from feedproxy.errors import FeedproxyError
from feedproxy.feed.channel import READER_MEDIA_TYPES

ENTRY = "feedproxy-subscribe.desktop"
TYPES = READER_MEDIA_TYPES
SCHEME = "x-scheme-handler/feed"
"""The media type by which a desktop finds the programs for addresses with the scheme `feed:`."""

PLACEHOLDERS = ("%u", "%U", "%s", "{}")
"""Placeholders for the address in a reader's command. If a command has none, the address becomes its last argument."""

_DEFAULTS = "[Default Applications]"
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./%-]+")
_TOOL_TIMEOUT = 20


class Folders(Struct, frozen=True):
    """The folders in which a user's programs store data, configuration and state."""

    data: Path
    config: Path
    state: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Folders":
        """Return the folders that the environment names by absolute paths (XDG Base Directory Specification), or the
        default."""
        home = Path(environment.get("HOME") or Path.home())

        def folder(name: str, default: str) -> Path:
            path = Path(environment.get(name) or "")
            return path if path.is_absolute() else home / default

        return cls(
            folder("XDG_DATA_HOME", ".local/share"),
            folder("XDG_CONFIG_HOME", ".config"),
            folder("XDG_STATE_HOME", ".local/state"),
        )

    @property
    def entry(self) -> Path:
        """Return the path of feedproxy's desktop entry."""
        return self.data / "applications" / ENTRY

    @property
    def defaults(self) -> Path:
        """Return the path of the user's list of default programs."""
        return self.config / "mimeapps.list"

    @property
    def record(self) -> Path:
        """Return the path of the file that records what this integration has installed."""
        return self.state / "feedproxy" / "subscribe.json"


class InstallationRecord(Struct, frozen=True):
    """The record of an installation.

    `before` and `after` are the list of default programs before and after the installation. `before` is None if there
    was no list. `made` are the folders that the installation created.
    """

    reader: str = ""
    through: str = ""
    before: str | None = None
    after: str = ""
    made: list[str] = field(default_factory=list)


def read_record(folders: Folders) -> InstallationRecord | None:
    """Return the record of the installation, or None if feedproxy is not installed. Raises FeedproxyError if the record
    cannot be read."""
    try:
        return InstallationRecord(**json.loads(folders.record.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise FeedproxyError(f"{folders.record} cannot be read: {error}") from error


def install(folders: Folders, environment: Mapping[str, str], *, reader: str = "", through: str = "") -> None:
    """Register feedproxy, and record the options `reader` and `through` for the command `subscribe`.

    An earlier registration is removed first. Raises FeedproxyError if a file cannot be read or written.
    """
    if read_record(folders) is not None:
        uninstall(folders)
    try:
        required_folders = (folders.entry.parent, folders.config, folders.record.parent)
        made = [str(created) for folder in required_folders for created in _make_folders(folder)]
        before = _read(folders.defaults)
        # The record is written first, so that everything after it can be undone.
        _write(folders.record, InstallationRecord(reader, through, before, before or "", made))
        folders.entry.write_text(_entry(own_command()), "utf-8")
        _become_default(folders, environment, before)
        after = _read(folders.defaults) or ""
        _write(folders.record, InstallationRecord(reader, through, before, after, made))
    except (OSError, UnicodeError) as error:
        raise FeedproxyError(f"feedproxy cannot be registered: {error}") from error


def uninstall(folders: Folders) -> bool:
    """Remove the installation. Return False if feedproxy was not installed, else True. Raises FeedproxyError if a file
    cannot be read or written."""
    record = read_record(folders)
    if record is None:
        return False
    try:
        folders.entry.unlink(missing_ok=True)
        now = _read(folders.defaults)
        then = record.before if now == record.after else _without_entry(now, record.before)
        if then is None:
            folders.defaults.unlink(missing_ok=True)
        elif then != now:
            folders.defaults.write_bytes(then.encode())
        folders.record.unlink()
        for folder in map(Path, reversed(record.made)):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
    except (OSError, UnicodeError) as error:
        raise FeedproxyError(f"feedproxy's registration cannot be undone: {error}") from error
    return True


def own_command() -> list[str]:
    """Return the command with which this feedproxy was started."""
    script = Path(sys.executable).with_name("feedproxy")
    return [str(script)] if script.exists() else [sys.executable, "-m", "feedproxy.cli"]


def reader_command(reader: str, address: str, environment: Mapping[str, str]) -> list[str]:
    """Return the command that opens `address`: `reader`, or the registered feed reader if `reader` is empty.

    Return an empty list if there is no reader. `address` begins with http, so the program cannot take it for an option.
    """
    command = shlex.split(reader) if reader else feed_handler(environment)
    if not command:
        return []
    program, *arguments = command
    if not any(placeholder in argument for argument in arguments for placeholder in PLACEHOLDERS):
        arguments.append(PLACEHOLDERS[0])
    for placeholder in PLACEHOLDERS:
        arguments = [argument.replace(placeholder, address) for argument in arguments]
    return [program, *arguments]


def feed_handler(environment: Mapping[str, str]) -> list[str]:
    """Return the command with which the registered feed reader opens a `feed:` address, or an empty list if no other
    program than feedproxy is registered, or if xdg-mime or xdg-open is missing."""
    tool, opener = shutil.which("xdg-mime"), shutil.which("xdg-open")
    if tool is None or opener is None:
        return []
    query = subprocess.run(  # noqa: S603 -- found on PATH
        [tool, "query", "default", SCHEME],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=_TOOL_TIMEOUT,
        check=False,
    )
    handler = query.stdout.strip()
    return [opener, "feed:{}"] if handler and handler != ENTRY else []


def _entry(command: Sequence[str]) -> str:
    lines = [
        "[Desktop Entry]",
        "Type=Application",
        "Version=1.5",
        "Name=Subscribe to feed",
        "Comment=Opens a feed in your reader",
        f"Exec={' '.join(_quote(argument) for argument in command)} subscribe %u",
        "Terminal=false",
        "NoDisplay=true",
        "StartupNotify=false",
        f"MimeType={''.join(f'{kind};' for kind in TYPES)}",
    ]
    return "\n".join(lines) + "\n"


def _quote(argument: str) -> str:
    """Return an argument as the key Exec of a desktop entry requires it, quoted if necessary."""
    argument = argument.replace("%", "%%")
    if _PLAIN.fullmatch(argument):
        return argument
    # The text is escaped for the quotes, and once more because it is a string of the entry.
    return '"' + re.sub(r'(["`$\\])', r"\\\1", argument).replace("\\", "\\\\") + '"'


def _become_default(folders: Folders, environment: Mapping[str, str], before: str | None) -> None:
    """Register feedproxy by xdg-mime, which also updates the desktops' own settings. If xdg-mime fails, change the list
    of default programs."""
    tool = shutil.which("xdg-mime")
    if tool is not None:
        done = subprocess.run(  # noqa: S603 -- found on PATH
            [tool, "default", ENTRY, *TYPES],
            env=dict(environment),
            capture_output=True,
            timeout=_TOOL_TIMEOUT,
            check=False,
        )
        text = _read(folders.defaults) or ""
        if done.returncode == 0 and all(_default(text, kind)[:1] == [ENTRY] for kind in TYPES):
            return
    text = before or ""
    for kind in TYPES:
        text = _with_default(text, kind, [ENTRY])
    folders.defaults.write_text(text, "utf-8")


def _without_entry(now: str | None, before: str | None) -> str | None:
    """Return the list of default programs without feedproxy's entry.

    `now` is the present list, or None if it was deleted: the result is then None. `before` is the list before the
    installation. If feedproxy is the only program of a media type in `now`, the programs in `before` replace it.
    """
    if now is None:
        return None
    for kind in TYPES:
        programs = _default(now, kind)
        if ENTRY in programs:
            remaining = [program for program in programs if program != ENTRY]
            now = _with_default(now, kind, remaining or _default(before or "", kind))
    return now


def _default(text: str, kind: str) -> list[str]:
    lines, at = text.splitlines(), _line_of(text, kind)
    return [program for program in lines[at].partition("=")[2].strip().split(";") if program] if at is not None else []


def _with_default(text: str, kind: str, programs: list[str]) -> str:
    lines, at = text.splitlines(), _line_of(text, kind)
    line = [f"{kind}={';'.join(programs)}"] if programs else []
    if at is not None:
        lines[at : at + 1] = line
    elif programs:
        if _DEFAULTS not in (line.strip() for line in lines):
            lines += [*([""] if lines else []), _DEFAULTS]
        start = next(number for number, text in enumerate(lines) if text.strip() == _DEFAULTS) + 1
        lines[start:start] = line
    return "\n".join(lines) + "\n" if lines else ""


def _line_of(text: str, kind: str) -> int | None:
    group = ""
    for number, line in enumerate(text.splitlines()):
        if line.strip().startswith("["):
            group = line.strip()
        elif group == _DEFAULTS and line.partition("=")[0].strip() == kind:
            return number
    return None


def _make_folders(folder: Path) -> list[Path]:
    """Create a folder and its parents. Return the created folders, the topmost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _read(path: Path) -> str | None:
    """Return the text of a file with its line ends, or None if the file does not exist."""
    return path.read_bytes().decode("utf-8") if path.exists() else None


def _write(path: Path, record: InstallationRecord) -> None:
    path.write_text(json.dumps(asdict(record), indent=1), "utf-8")
