"""feedproxy as the desktop's program for feeds: a click on a feed's icon opens it in the user's own reader.

Two files make it so: a desktop entry, and the user's list of which program opens what (Desktop Entry Specification;
Association between MIME types and applications; XDG Base Directory Specification). What both folders were like before
is written down, so that all of it can be undone exactly; where somebody else has changed the list since, only what is
ours is taken out, and what was there before is put back.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from feedproxy.errors import FeedproxyError

ENTRY = "feedproxy-subscribe.desktop"
TYPES = ("application/rss+xml", "application/atom+xml", "application/feed+json", "application/rdf+xml")
SCHEME = "x-scheme-handler/feed"
"""What readers register for that know the feed: scheme."""

_DEFAULTS = "[Default Applications]"
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./%-]+")
_TOOL_TIMEOUT = 20


@dataclass(frozen=True, slots=True)
class Folders:
    """Where a user's programs keep data, configuration and state."""

    data: Path
    config: Path
    state: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Folders":
        """As the environment says. "If an implementation encounters a relative path … it should … ignore it." """
        home = Path(environment.get("HOME") or Path.home())

        def folder(name: str, default: str) -> Path:
            said = Path(environment.get(name) or "")
            return said if said.is_absolute() else home / default

        return cls(
            folder("XDG_DATA_HOME", ".local/share"),
            folder("XDG_CONFIG_HOME", ".config"),
            folder("XDG_STATE_HOME", ".local/state"),
        )

    @property
    def entry(self) -> Path:
        """Our desktop entry."""
        return self.data / "applications" / ENTRY

    @property
    def defaults(self) -> Path:
        """Which program opens what."""
        return self.config / "mimeapps.list"

    @property
    def record(self) -> Path:
        """What was done here, and the reader that was named."""
        return self.state / "feedproxy" / "subscribe.json"


@dataclass(frozen=True, slots=True)
class Record:
    """What an installation did: the list before (None: there was none) and after, and the folders it made."""

    reader: str = ""
    through: str = ""
    before: str | None = None
    after: str = ""
    made: list[str] = field(default_factory=list)


def read_record(folders: Folders) -> Record | None:
    """What the installation wrote down; None where there is none. Raises FeedproxyError where it cannot be read."""
    try:
        return Record(**json.loads(folders.record.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise FeedproxyError(f"{folders.record} cannot be read: {error}") from error


def install(folders: Folders, environment: Mapping[str, str], *, reader: str = "", through: str = "") -> None:
    """Register, in place of an earlier registration of ours. Raises FeedproxyError where a file cannot be written."""
    if read_record(folders) is not None:
        uninstall(folders)
    try:
        wanted = (folders.entry.parent, folders.config, folders.record.parent)
        made = [str(each) for folder in wanted for each in _make(folder)]
        before = _read(folders.defaults)
        # Written first: what is done after it can be undone.
        _write(folders.record, Record(reader, through, before, before or "", made))
        folders.entry.write_text(_entry(own_command()), "utf-8")
        _become_default(folders, environment, before)
        after = _read(folders.defaults) or ""
        _write(folders.record, Record(reader, through, before, after, made))
    except (OSError, UnicodeError) as error:
        raise FeedproxyError(f"feedproxy cannot be registered: {error}") from error


def uninstall(folders: Folders) -> bool:
    """Put everything back as it was; whether there was anything. Raises FeedproxyError where that cannot be done."""
    record = read_record(folders)
    if record is None:
        return False
    try:
        folders.entry.unlink(missing_ok=True)
        now = _read(folders.defaults)
        then = record.before if now == record.after else _without_us(now, record.before)
        if then is None:
            folders.defaults.unlink(missing_ok=True)
        elif then != now:
            folders.defaults.write_bytes(then.encode())
        folders.record.unlink()
        for each in reversed(record.made):
            if Path(each).is_dir() and not any(Path(each).iterdir()):
                Path(each).rmdir()
    except (OSError, UnicodeError) as error:
        raise FeedproxyError(f"feedproxy's registration cannot be undone: {error}") from error
    return True


def own_command() -> list[str]:
    """How this very feedproxy is started."""
    script = Path(sys.executable).with_name("feedproxy")
    return [str(script)] if script.exists() else [sys.executable, "-m", "feedproxy.cli"]


def feed_handler(environment: Mapping[str, str]) -> list[str]:
    """The command that opens feed: addresses in the reader registered for them; empty where there is none."""
    tool, opener = shutil.which("xdg-mime"), shutil.which("xdg-open")
    if tool is None or opener is None:
        return []
    asked = subprocess.run(  # noqa: S603 -- found on PATH
        [tool, "query", "default", SCHEME],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=_TOOL_TIMEOUT,
        check=False,
    )
    handler = asked.stdout.strip()
    return [opener, "feed:{}"] if handler and handler != ENTRY else []


def _entry(command: Sequence[str]) -> str:
    lines = [
        "[Desktop Entry]",
        "Type=Application",
        "Version=1.5",
        "Name=Subscribe to feed",
        "Comment=Opens a feed in your reader",
        f"Exec={' '.join(_quoted(each) for each in command)} subscribe %u",
        "Terminal=false",
        "NoDisplay=true",
        "StartupNotify=false",
        f"MimeType={''.join(f'{each};' for each in TYPES)}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(argument: str) -> str:
    """An argument of Exec. "Quoting must be done by enclosing the argument between double quotes"; %% is one sign."""
    argument = argument.replace("%", "%%")
    if _PLAIN.fullmatch(argument):
        return argument
    # Escaped for the quotes, and once more since it is a string of the entry.
    return '"' + re.sub(r'(["`$\\])', r"\\\1", argument).replace("\\", "\\\\") + '"'


def _become_default(folders: Folders, environment: Mapping[str, str], before: str | None) -> None:
    """By xdg-mime, which knows what desktops want beside the list; else, or where it fails, by our own hand."""
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
        if done.returncode == 0 and all(_default(text, each)[:1] == [ENTRY] for each in TYPES):
            return
    text = before or ""
    for each in TYPES:
        text = _with_default(text, each, [ENTRY])
    folders.defaults.write_text(text, "utf-8")


def _without_us(now: str | None, before: str | None) -> str | None:
    """The list as somebody else has left it, without us, and with what stood in our place before."""
    if now is None:
        return None
    for each in TYPES:
        programs = _default(now, each)
        if ENTRY in programs:
            left = [program for program in programs if program != ENTRY]
            now = _with_default(now, each, left or _default(before or "", each))
    return now


def _default(text: str, kind: str) -> list[str]:
    """The programs that open this type, the first that exists does."""
    lines, at = text.splitlines(), _line_of(text, kind)
    return [each for each in lines[at].partition("=")[2].strip().split(";") if each] if at is not None else []


def _with_default(text: str, kind: str, programs: list[str]) -> str:
    lines, at = text.splitlines(), _line_of(text, kind)
    line = [f"{kind}={';'.join(programs)}"] if programs else []
    if at is not None:
        lines[at : at + 1] = line
    elif programs:
        if _DEFAULTS not in (each.strip() for each in lines):
            lines += [*([""] if lines else []), _DEFAULTS]
        start = next(number for number, each in enumerate(lines) if each.strip() == _DEFAULTS) + 1
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


def _make(folder: Path) -> list[Path]:
    """Make a folder and those above it; those that were not there, the topmost first."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _read(path: Path) -> str | None:
    """The text, its line ends as they are; None where there is no file."""
    return path.read_bytes().decode("utf-8") if path.exists() else None


def _write(path: Path, record: Record) -> None:
    path.write_text(json.dumps(asdict(record), indent=1), "utf-8")
