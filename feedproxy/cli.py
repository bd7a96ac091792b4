"""The command line: feedproxy COMMAND …

Exit codes: 0 done, 1 findings or failure of the thing asked, 2 wrong usage or configuration, told in one line.
"""

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Sequence

from feedproxy import __version__, commands
from feedproxy.errors import FeedproxyError, UsageError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    parser = argparse.ArgumentParser(
        prog="feedproxy", description="An HTTP caching proxy made for feeds.", allow_abbrev=False
    )
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
