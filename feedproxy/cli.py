"""The command line: feedproxy COMMAND …

Exit codes: 0 done, 1 findings or failure of the thing asked, 2 wrong usage or configuration, told in one line.
"""

import argparse
import difflib
import importlib
import pkgutil
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from feedproxy import __version__, commands
from feedproxy.errors import FeedproxyError, UsageError


class Parser(argparse.ArgumentParser):
    """Tells a mistake in one line, with what was perhaps meant."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # An abbreviation that works today may mean two things in the next version.
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        known = [option for action in self._actions for option in action.option_strings]
        mistyped = re.findall(r"(?<!\S)--[\w-]+", message) if "unrecognized" in message else []
        near = [close[0] for word in mistyped if (close := difflib.get_close_matches(word, known, 1))]
        hint = f" (did you mean {', '.join(near)}?)" if near else ""
        self.exit(2, f"feedproxy: {message}{hint}; see {self.prog} --help\n")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            # The command's own parser knows which flags there are.
            parser: Parser = getattr(parsed, "parser", self)
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        return parsed


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    parser = Parser(prog="feedproxy", description="An HTTP caching proxy made for feeds.")
    parser.add_argument("--version", action="version", version=f"feedproxy {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for each in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"feedproxy.commands.{each.name}").register(subparsers)
    args = parser.parse_args(argv)
    try:
        code: int = args.run(args)
    except UsageError as error:
        print(f"feedproxy: {error}", file=sys.stderr)
        return 2
    except FeedproxyError as error:
        print(f"feedproxy: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
