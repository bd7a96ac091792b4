"""Runs a page of the documentation as a new user would, and compares the shown output with the real one.

The blocks of a page are run in order, in an empty folder. A block is a list of commands, the output of the commands
before it, or what a directive says. A directive is an HTML comment; CONTRIBUTING.md describes them.
"""

import difflib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from xmlrpc.client import dumps

from conformance.process import free_port
from tests.live.origin import a_feed
from tests.live.product import COMMAND, LISTENS, ROOT, Process, product_environment
from tests.waiting import PATIENCE

COMMAND_MAX = 330.0
"""Seconds that a command may print nothing, below pytest's timeout. `feedproxy demo --days 1` takes 4 s on a processor
of its own, and perhaps more than PATIENCE on a very busy machine."""

REASONS = {
    "an example": "a value, an address or a log line that prose explains; there is nothing to run",
    "another program's configuration": "nginx, HAProxy, Prometheus, a browser: not feedproxy's to check here",
    "installs": "the tests run in an environment that is installed already",
    "docs/tutorial/demo.md": "that page runs a day of it",
    "needs root": "writes outside of the user's own folders",
    "needs systemd": "no service manager runs the tests",
    "needs Docker": "no container engine runs the tests",
    "needs the Internet": "tests reach loopback only",
    "needs a service": "an account at a CDN or a hub that calls back",
    "tests/security/test_trusted_proxies.py": "that test plays this block",
    "tests/live/test_varnish.py": "that test plays this block",
    "tests/live/test_monitoring.py": "that test plays this block",
}
"""Why a block may be skipped. All other blocks are run, or compared."""

PROGRAMS = frozenset(
    {
        "feedproxy",
        "curl",
        "python3",
        "pip",
        "pipx",
        "make",
        "docker",
        "sudo",
        "install",
        "htpasswd",
        "certutil",
        "promtool",
    }
    | {"systemctl", "journalctl", "systemd-analyze", "varnishd", "mitmdump", "newsboat", "git", ".", "for", "export"}
    | {"cp", "mkdir", "sleep", "sed", "grep", "echo", "kill", "touch"}
)
"""First words of commands. Blocks that begin with another word are outputs, unless a directive says otherwise."""

BUILT_IN = {".", "for", "until", "export"}
"""The PROGRAMS that are built into the shell."""

SERVERS = re.compile(
    r"feedproxy (?:serve(?!.*--check)|replay(?!.*--list-faults))|python3 -m http\.server|mitmdump|redis-server"
)
"""Commands that keep running while the rest of the page is executed."""

DIRECTIVE = re.compile(r"<!-- run: (\S+)(?: (.*?))? -->")
OUTPUT = re.compile(r"feedproxy (?:\d|listens on )|feedproxy: ")
"""Lines that begin like a command, and are outputs."""
SHELL = re.compile(r"[|><&;$*?(){}~`]")
PIPED = re.compile(r"(feedproxy [^|><&;]+) ([|>] .+)")
"""A command of feedproxy whose output is piped or redirected by the shell."""
QUOTED = re.compile(r"'[^']*'|\"[^\"$]*\"")

PORT = re.compile(r"((?:127\.0\.0\.1|localhost|0\.0\.0\.0|(?<=[\s'\"=])):|http\.server |--port )(\d{4,5})\b")
ELSEWHERE = re.compile(r"(?<![\w./~-])/(etc|run|var/lib|var/cache)/(?=\w)")
"""System folders named by pages. In a run they are below the test's folder."""

MASKS = [
    (re.compile(pattern, re.M), mask)
    for pattern, mask in (
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:Z|[+-]\d{4})?", "TIME"),
        (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT|\d+ \w{3} \d\d:\d\d(?: GMT)?", "TIME"),
        (r"^(Server|ETag|Age|Content-Length|Surrogate-Key): .*", r"\1: …"),
        (r"\b(max-age|ttl)=-?\d+", r"\1=N"),
        (r"\bfeedproxy-[0-9a-f]{8}\b", "feedproxy-NAME"),
        (r"\bfeed-id=[0-9a-f]{16}", "feed-id=NAME"),
        (r"\b(feedproxy[ /])\d+\.\d+\.\d+\b", r"\1VERSION"),
        (r"\b(?:\d+ (?:h|min) )?\d+(?:\.\d+)? (?:ms|s|min|h|B|kB|KB|KiB|MB)\b", "QUANTITY"),
        (r"^time per answer.*", "time per answer …"),
        (r"[ \t]+$", ""),
        (r" {2,}", "  "),
    )
]
"""Values that differ between runs, with their placeholders."""


SETTLES = 5.0
"""Seconds within which a command that keeps running has written the output shown on the page."""


class Untrue(AssertionError):
    """The page shows other output than the commands had."""


@dataclass(frozen=True)
class Block:
    """A code block without its indentation."""

    line: int
    text: str


@dataclass(frozen=True)
class Directive:
    """An instruction of the page to the runner."""

    line: int
    verb: str
    rest: str


@dataclass(frozen=True)
class Heading:
    """The beginning of a section."""

    text: str


type Item = Block | Directive | Heading


def read(text: str) -> Iterator[Item]:
    """Return the blocks, directives and headings of a page, in order."""
    begun, block, fence, prose = 0, list[str](), False, False
    for number, line in enumerate([*text.splitlines(), "end"], 1):
        fenced = line.startswith("```")
        inside = fence or (line.startswith("    ") and not prose)
        if not fenced and (inside or (block and not line.strip())):
            begun = begun if block else number
            block.append(line if fence else line[4:])
            continue
        if block:
            yield Block(begun, "\n".join(block).rstrip())
            block = []
        fence = fence != fenced
        prose = bool(line.strip()) and not fenced and not DIRECTIVE.fullmatch(line.strip())
        if found := DIRECTIVE.fullmatch(line.strip()):
            yield Directive(number, found[1], found[2] or "")
        elif line.startswith("#"):
            prose = False
            yield Heading(line.lstrip("#").strip())


def looks_like_a_command(line: str) -> bool:
    """Return True if a line begins with a program."""
    return line.partition(" ")[0] in PROGRAMS and not OUTPUT.match(line)


def masked(text: str) -> str:
    """Return the text with placeholders for values that differ between runs."""
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text.strip("\n")


def same(shown: str, real: str) -> bool:
    """Return True if the shown output matches the real one. `…` matches any text, and on its own line any lines."""
    lines = ["(?:.*\n)*" if line.strip() == "…" else _pattern(line) + "\n" for line in shown.split("\n")]
    return re.fullmatch("".join(lines), real + "\n") is not None


def _pattern(line: str) -> str:
    return ".*?".join(re.escape(part) for part in line.split("…"))


class Page:
    """One run of one page."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        self.checked = 0
        self.untrue: list[str] = []
        """Error messages: places where the page and the real output differ."""
        self._ports: dict[str, int] = {}
        self._origins: dict[str, StandIn] = {}
        self._servers: list[Server] = []
        self._output: str | Server = ""
        self._code = 0
        self._pending: Directive | None = None
        self._environment = product_environment(folder)
        self._make_ready()

    def _make_ready(self) -> None:
        """Prepare a new user's environment: the command, curl, and the clone's `conf` and `addons`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        programs = self.folder.parent / f"{self.folder.name}-programs"
        programs.mkdir()
        command = programs / "feedproxy"
        command.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
        command.chmod(0o755)
        for name in ("conf", "addons"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / ".curlrc").write_text("silent\nshow-error\nfail-with-body\nmax-time = 30\n")
        path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), self._environment["PATH"]))
        self._environment |= {
            "PATH": path,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), self._environment.get("PYTHONPATH")))),
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "80",
            "FEEDPROXY_LISTEN": f"127.0.0.1:{self._port('8080')}",
            "FEEDPROXY_ADMIN": f"127.0.0.1:{self._port('8081')}",
        }

    # -- texts of the page and of this run

    def _port(self, named: str) -> int:
        return self._ports.setdefault(named, free_port())

    def _real(self, text: str) -> str:
        """Return a text of the page with this run's ports, origins and folders."""
        text = re.sub(r"\b(?:0\.0\.0\.0|THIS-HOST|redis\.internal):", "127.0.0.1:", text)
        text = PORT.sub(lambda found: f"{found[1]}{self._port(found[2])}", text)
        for host, origin in self._origins.items():
            text = re.sub(rf"https?://{re.escape(host)}(?![\w.:-])", origin.base, text)
            text = re.sub(rf"(?<![\w.@/-]){re.escape(host)}(?![\w.:-])", origin.address, text)
        return ELSEWHERE.sub(self._moved, text)

    def _moved(self, found: re.Match[str]) -> str:
        place = self.folder / "machine" / found[1]
        place.joinpath("feedproxy").mkdir(parents=True, exist_ok=True)
        return f"{place}/"

    def _shown(self, text: str) -> str:
        """Return an output with the page's ports, origins and folders."""
        text = text.replace("\r\n", "\n")
        for host, origin in self._origins.items():
            text = text.replace(origin.base, f"https://{host}").replace(origin.address, host)
        for named, port in self._ports.items():
            text = re.sub(rf"(?<=[: ]){port}\b", named, text)
        return text.replace(f"{self.folder}/machine", "").replace(f"{self.folder}/", "").replace(str(self.folder), "~")

    # -- the run

    def missing(self) -> set[str]:
        """Return the programs at the beginning of the page's blocks that are not installed."""
        found, skipped = set[str](), False
        for item in read(self.path.read_text(encoding="utf-8")):
            match item:
                case Directive(verb="$", rest=command):
                    found.add(command.partition(" ")[0])
                case Directive(verb=verb):
                    skipped = verb == "skip"
                case Block() if not skipped:
                    lines = [line for line in item.text.split("\n") if looks_like_a_command(line)]
                    plain = [QUOTED.sub("", line) for line in lines]
                    found |= {word for line in plain for word in re.findall(r"(?:^| \| )([\w.-]+)", line)}
                case Block():
                    skipped = False
                case Heading():
                    pass
        return {name for name in found - BUILT_IN if shutil.which(name, path=self._environment["PATH"]) is None}

    def play(self, section: str | None = None, path: Path | None = None) -> None:
        """Run the page, or a section of another page."""
        path, here = path or self.path, section is None
        met = here
        for item in read(path.read_text(encoding="utf-8")):
            match item:
                case Heading(text):
                    here = section in (None, text)
                    met = met or here
                case Directive() | Block() if here:
                    self._at(path, item)
        assert met, f"{path.name} has no section {section!r}"
        if path == self.path:
            self._no_pending()
            for server in self._servers:
                server.stop()

    def close(self) -> None:
        """Stop all running commands."""
        for server in self._servers:
            server.close()
        for origin in self._origins.values():
            origin.close()

    def _at(self, path: Path, item: Block | Directive) -> None:
        try:
            self._obey(item) if isinstance(item, Directive) else self._block(item)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            self.untrue.append(f"{path.name}:{item.line}: {error}")

    def _no_pending(self) -> None:
        assert self._pending is None, f"line {self._pending.line}: no block follows the directive"

    def _obey(self, directive: Directive) -> None:
        where, rest = f"{self.path.name}:{directive.line}", directive.rest
        match directive.verb:
            case "$":
                self._commands([rest])
            case "origin":
                for host in rest.split():
                    self._origins[host] = StandIn(self.folder / "origins" / host)
                self._environment["FEEDPROXY_ALLOW_PRIVATE"] = "true"
            case "stop":
                found = [server for server in self._servers if rest in server.command and not server.ended]
                assert found, f"{where}: no such program is under way: {rest}"
                found[-1].stop()
            case "section":
                name, _, title = rest.partition(" ")
                self.play(title, (self.path.parent / name).resolve())
            case "file" | "skip" | "exits":
                self._no_pending()
                self._pending = directive
                assert directive.verb != "skip" or rest in REASONS, f"{where}: {rest!r} is not among the reasons"
            case unknown:
                raise AssertionError(f"{where}: no such directive: {unknown}")

    def _block(self, block: Block) -> None:
        self.checked += 1
        pending, self._pending = self._pending, None
        match pending:
            case Directive(_, "skip"):
                return
            case Directive(_, "file", name):
                place = Path(self._real(name))
                written = self.folder / place.expanduser() if not place.is_absolute() else place
                written.parent.mkdir(parents=True, exist_ok=True)
                written.write_text(self._real(block.text) + "\n", encoding="utf-8")
                return
            case _:
                expected = int(pending.rest) if pending else 0
        shown: list[str] = []
        for paragraph in block.text.split("\n\n"):
            lines = paragraph.replace("\\\n", "").split("\n")
            if looks_like_a_command(lines[0]):
                self._compare(shown)
                shown = []
                self._commands(lines, expected)
            else:
                shown.append(paragraph)
        self._compare(shown)

    def _compare(self, paragraphs: list[str]) -> None:
        if not paragraphs:
            return
        shown = masked(re.sub(r"\b0\.0\.0\.0:", "127.0.0.1:", "\n\n".join(paragraphs)))
        source = self._output
        deadline = time.monotonic() + (0 if isinstance(source, str) else SETTLES)
        while not (agree := same(shown, real := masked(self._shown(str(source))))) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not agree:
            differences = difflib.unified_diff(shown.split("\n"), real.split("\n"), "the page", "the run", lineterm="")
            raise Untrue("\n".join(["the output is another:", *differences]))

    def _commands(self, lines: list[str], expected: int = 0) -> None:
        """Run commands. Their output is compared with the next block."""
        self._output = ""
        for line in lines:
            self._command(line.strip(), expected)

    def _command(self, line: str, expected: int) -> None:
        real = self._real(line)
        if found := re.fullmatch(r"export (.+)", real):
            pairs = [pair.split("=", 1) for pair in shlex.split(found[1])]
            # As in a shell, a blank in the value of a variable does not end a word.
            self._environment |= {name: Template(value).safe_substitute(self._environment) for name, value in pairs}
            return
        if SERVERS.match(line):
            arguments, environment = self._arguments(real), self._environment_of(line)
            listens = re.findall(r"(?:http\.server|--port|--listen(?:-port)?) (?:\S+:)?(\d+)", " ".join(arguments))
            port = int(listens[-1] if listens else self._port("8080"))
            for server in self._servers:
                if server.port == port:
                    server.stop()
            self._output = Server(line, port, arguments, self.folder, environment)
            self._servers.append(self._output)
            return
        code, output = self._finish(line, real)
        if code != expected:
            raise Untrue(f"`{line}` ends with {code}, not {expected}:\n{self._shown(output)}")
        self._output = output if isinstance(self._output, Server) else self._output + output

    def _finish(self, line: str, real: str) -> tuple[int, str]:
        """Run a command to its end and return its exit code and output."""
        environment = self._environment_of(line)
        arguments, given = self._arguments(real), ""
        if found := PIPED.fullmatch(real):
            # The first part is forked, like any feedproxy command; the shell runs the rest.
            first = self._arguments(found[1])
            if first[: len(COMMAND)] == COMMAND:
                process = Process(first, self.folder, environment)
                given = process.rest()
                if code := process.wait():
                    return code, given + process.said
                arguments = self._arguments(f"cat {found[2]}")
        if arguments[: len(COMMAND)] == COMMAND:
            process = Process(arguments, self.folder, environment)
            printed = process.rest(deadline=COMMAND_MAX)
            return process.wait(), printed + process.said
        ended = subprocess.run(
            arguments,
            cwd=self.folder,
            env=environment,
            input=given.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
        return ended.returncode, ended.stdout.decode(errors="replace")

    def _environment_of(self, line: str) -> dict[str, str]:
        """Return the environment. The check of a configuration must not show this run's ports."""
        hidden = ("FEEDPROXY_LISTEN", "FEEDPROXY_ADMIN", "FEEDPROXY_ALLOW_PRIVATE") if "--check" in line else ()
        return {name: value for name, value in self._environment.items() if name not in hidden}

    def _arguments(self, line: str) -> list[str]:
        """Return a plain feedproxy command unchanged, so that it can be forked, and any other command for the shell."""
        if self._origins:
            line = re.sub(r"\b(feedproxy (?:check|convert|discover|subscribe)) ", r"\1 --allow-private ", line)
        line = re.sub(r"(?<= )~/(?=\w)", f"{self.folder}/", line)
        if line.startswith("feedproxy ") and not SHELL.search(QUOTED.sub("", line.partition(" #")[0])):
            words = shlex.split(line, comments=True)[1:]
            if words[0] == "replay" and "--list-faults" not in words:
                words += ["--listen", self._environment["FEEDPROXY_LISTEN"]] * ("--listen" not in words)
                words += ["--admin", self._environment["FEEDPROXY_ADMIN"]] * ("--admin" not in words)
            return [*COMMAND, *words]
        if line.startswith("mitmdump "):
            line += f" --set admin={self._environment['FEEDPROXY_ADMIN']} --set allow_private=true"
            line += f" --listen-host 127.0.0.1 --listen-port {self._port('8080')}"
        return ["bash", "-o", "pipefail", "-c", f"exec {line}" if SERVERS.match(line) else line]


class Server:
    """A running command. It is stopped when another needs its port."""

    def __init__(
        self, command: str, port: int, arguments: list[str], folder: Path, environment: dict[str, str]
    ) -> None:
        self.command = command
        self.port = port
        self.ended = False
        self._process = Process(arguments, folder, environment)
        self._ours = arguments[: len(COMMAND)] == COMMAND
        if self._ours:
            self._process.line(LISTENS)
        else:
            self._wait_for(port)

    def __str__(self) -> str:
        """Return its log followed by its output."""
        return self._process.said + "".join(self._process.printed)

    def stop(self) -> None:
        """Stop it by SIGINT."""
        if self.ended:
            return
        self.ended = True
        self._process.process.send_signal(signal.SIGINT)
        code = self._process.wait()
        assert not self._ours or code == 0, f"`{self.command}` ended with {code}: {self._process.said}"
        assert "Traceback" not in self._process.said or not self._ours, self._process.said

    def close(self) -> None:
        if not self.ended:
            self._process.kill()

    def _wait_for(self, port: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError(f"`{self.command}` does not listen at {port}: {self}")


class StandIn:
    """An origin on loopback instead of a host that a page names.

    It serves the files in its folder, a feed for paths ending in `.xml`, and otherwise a page that links to that feed.
    It accepts pings.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.stand_in = self  # type: ignore[attr-defined]
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self.base = f"http://{self.address}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def content(self, path: str) -> tuple[str, bytes]:
        """Return media type and content of a path."""
        file = self.folder / path.lstrip("/").partition("?")[0]
        feed = path.partition("?")[0].endswith(".xml")
        if file.is_file():
            return "application/rss+xml" if feed else "text/html", file.read_bytes()
        if feed:
            text = a_feed("one", "two", extra="<ttl>60</ttl>").decode()
            return "application/rss+xml", text.replace("http://example.com", self.base).encode()
        link = f"<link rel='alternate' type='application/rss+xml' title='News' href='{self.base}/feed.xml'>"
        return "text/html", f"<!doctype html><html><head><title>News</title>{link}</head></html>".encode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        media_type, content = self.server.stand_in.content(self.path)  # type: ignore[attr-defined]
        tag = f'"{hash(content) & 0xFFFF:04x}"'
        known = self.headers.get("If-None-Match") == tag
        self.send_response(304 if known else 200)
        self.send_header("ETag", tag)
        if not known:
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not known and self.command != "HEAD":
            self.wfile.write(content)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Accept a ping."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content = dumps(({"flerror": False, "message": "Thanks for the ping."},), methodresponse=True).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Do nothing."""


@contextmanager
def opened(path: Path, folder: Path) -> Iterator[Page]:
    """Open a page for a run."""
    page = Page(path, folder)
    try:
        yield page
    finally:
        page.close()
        shutil.rmtree(folder, ignore_errors=True)
