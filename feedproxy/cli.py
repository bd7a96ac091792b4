"""The command line: `feedproxy COMMAND …`.

Exit codes: 0 for success, 1 for findings or a failure, 2 for a wrong usage or configuration, 130 after Ctrl-C. A wrong
usage or configuration is reported in one line.
"""

import argparse
import contextlib
import difflib
import errno
import importlib
import io
import os
import pkgutil
import re
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO, cast

from feedproxy import __version__, commands
from feedproxy.errors import FeedproxyError, UsageError

SYNONYMS = {
    "run": "serve",
    "start": "serve",
    "import": "opml",
    "export": "opml",
    "lint": "check",
    "validate": "check",
    "find": "discover",
    "stats": "status",
    "top": "status",
    "flush": "purge",
    "ban": "purge",
    "reload": "refresh",
    "update": "refresh",
    "config": "options",
    "grade": "score",
    "play": "replay",
}
"""feedproxy's commands, keyed by their names in other programs, for hints after an unknown name."""


class Parser(argparse.ArgumentParser):
    """Argument parser that reports a mistake in one line, and suggests a similar name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # An abbreviation may become ambiguous with the next version.
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        option_strings = [option for action in self._actions for option in action.option_strings]
        mistyped = re.findall(r"(?<!\S)--[\w-]+", message) if "unrecognized" in message else []
        if "--format" in option_strings and "--json" in mistyped:
            near = ["--format json"]
        else:
            near = [close[0] for word in mistyped if (close := difflib.get_close_matches(word, option_strings, 1))]
        if unknown := re.match(r"argument COMMAND: invalid choice: '([^']*)'", message):
            commands_ = self._commands()
            synonym = SYNONYMS.get(unknown[1].lower())
            near = [synonym] if synonym else difflib.get_close_matches(unknown[1].lower(), commands_, 1)
            message = f"unknown command '{unknown[1]}'"
        hint = f" (did you mean {', '.join(near)}?)" if near else ""
        _print_error(f"{message}{hint}; see {self.prog} --help")
        self.exit(2)

    def _commands(self) -> list[str]:
        actions = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return [name for action in actions for name in action.choices]

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the parsed arguments, and an empty list: an unknown flag is an error. argparse calls this method also
        of the command's parser. The error therefore suggests a similar flag of the command."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def command_names() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(commands.__path__)]


def make_parser(*names: str) -> Parser:
    """Return the parser of these commands, or of all commands if `names` is empty.

    Python imports all that the commands of a parser need. The parser of one command is made in a third of the time for
    all commands.
    """
    parser = Parser(prog="feedproxy", description="An HTTP caching proxy made for feeds.")
    parser.add_argument("-V", "--version", action="version", version=f"feedproxy {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name in names or command_names():
        importlib.import_module(f"feedproxy.commands.{name}").register(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Return the exit code."""
    open_standard_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the locale's encoding lacks is written as an escape, as on standard error. No encoding has
        # the surrogates that stand for the bytes of an invalid file name.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()  # otherwise the interpreter would report a failure at its exit
    except KeyboardInterrupt:
        print("feedproxy: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        _discard_output()
        return 1
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS or error.filename is not None:
            raise
        _discard_output()
        _print_error(f"cannot write the output: {error.strerror}")
        return 1


_OUTPUT_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a file to which the shell redirects the output. Commands translate the errors of all other files."""


def _discard_output() -> None:
    """Redirect standard output to /dev/null, because the interpreter writes the rest of its buffer when it exits."""
    with contextlib.suppress(OSError, ValueError):  # a test's standard output has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_error(message: object) -> None:
    from feedproxy.telemetry.log_format import print_error  # noqa: PLC0415 -- for errors only

    print_error(message)


def open_standard_streams() -> None:
    """Open /dev/null in place of closed standard input, output and error.

    Otherwise a database file could get the descriptor of a closed stream, and the output of a library would damage the
    database. Python's objects for closed streams are None.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is this one
    sys.stdin = sys.stdin or _open_stream(0, "r")
    sys.stdout = sys.stdout or _open_stream(1, "w")
    sys.stderr = sys.stderr or _open_stream(2, "w")


def _open_stream(number: int, mode: str) -> TextIO:
    return cast(TextIO, os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False))


def _run(argv: list[str]) -> int:
    if argv and argv[0] in ("version", "-V", "--version"):
        print(f"feedproxy {__version__}")
        return 0
    if argv and argv[0] == "help":
        # `feedproxy help serve` means `feedproxy serve --help`.
        argv = [*argv[1:2], "--help"]
    parser = make_parser(argv[0]) if argv and argv[0] in command_names() else make_parser()
    args = parser.parse_args(argv)
    if not hasattr(args, "run"):
        parser.print_help(sys.stderr)
        return 2
    if getattr(args, "format", "text") != "text" and isinstance(sys.stdout, io.TextIOWrapper):
        # JSON, HTML and XML are in UTF-8 in every locale.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code: int = args.run(args)
    except UsageError as error:
        _print_error(error)
        return 2
    except FeedproxyError as error:
        _print_error(error)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
