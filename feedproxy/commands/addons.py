"""feedproxy addons: print the folder of the addons for `mitmdump -s`."""

import argparse
import importlib.util
from pathlib import Path
from typing import Any

from feedproxy.errors import FeedproxyError


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "addons",
        help="print the folder of the addon scripts, for mitmdump -s",
        description="Print the folder of the addon scripts, for mitmdump -s.",
    )
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Print the folder. Return 0."""
    print(folder())
    return 0


def folder() -> Path:
    """Return the folder of the addon scripts, in a wheel or in a source tree. Raises FeedproxyError if the addons are
    not installed."""
    spec = importlib.util.find_spec("feedproxy.addons")
    if spec is None or not spec.submodule_search_locations:
        raise FeedproxyError("the addons are not installed")
    return Path(spec.submodule_search_locations[0])
