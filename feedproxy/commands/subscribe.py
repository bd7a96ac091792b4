"""feedproxy subscribe: open a downloaded feed in the user's reader (USM)."""

import argparse
import asyncio
import os
import shlex
import subprocess
import sys
from typing import Any

from feedproxy.admin import admin_client
from feedproxy.errors import BadTarget, FeedproxyError, UsageError
from feedproxy.http import uri
from feedproxy.http.target_uri.gateway_path import gateway_path
from feedproxy.usm import desktop_integration
from feedproxy.usm.address_discovery import discover
from feedproxy.usm.address_or_file import private_address_hint


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "subscribe",
        help="open a downloaded feed in your reader",
        description="Find the address for subscriptions to a feed, and open it in your reader.",
    )
    parser.add_argument("source", metavar="FILE|URL", nargs="?", help="a downloaded feed or page, or an address")
    parser.add_argument("--reader", metavar="COMMAND", default="", help="your reader; %%u stands for the address")
    parser.add_argument(
        "--through", metavar="URL", default="", help="the address of a feedproxy: subscribe through that gateway"
    )
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--install", action="store_true", help="register feedproxy as the desktop's program for feeds")
    doing.add_argument("--uninstall", action="store_true", help="undo --install exactly")
    parser.add_argument("--allow-private", action="store_true", help="permit private addresses")
    parser.set_defaults(run=subscribe)


def subscribe(args: argparse.Namespace) -> int:
    """Open the feed in the feed reader, or register feedproxy as the desktop's program for feeds, or undo this
    registration.

    Return 1 if the reader fails, or if there is no registration to undo. Otherwise return 0. Raises FeedproxyError if
    the feed cannot be fetched or no reader is known, and UsageError if an argument is invalid.
    """
    _check(args)
    folders = desktop_integration.Folders.of(os.environ)
    if args.uninstall:
        if not desktop_integration.uninstall(folders):
            print("feedproxy is not registered for feeds", file=sys.stderr)
            return 1
        return 0
    if args.install:
        desktop_integration.install(folders, os.environ, reader=args.reader, through=args.through)
        return 0
    settings = admin_client.request_settings(args.allow_private)
    with private_address_hint(args.source, settings):
        result = asyncio.run(discover(args.source, settings))
    record = desktop_integration.read_record(folders) or desktop_integration.InstallationRecord()
    address, through = result.feeds[0].address, args.through or record.through
    if through and not address.startswith(through.rstrip("/") + "/"):
        address = through.rstrip("/") + gateway_path(address)
    command = desktop_integration.reader_command(args.reader or record.reader, address, os.environ)
    if not command:
        print(address)
        raise FeedproxyError("no reader is known: give --reader COMMAND, or open the address above in your reader")
    return _run(command)


def _check(args: argparse.Namespace) -> None:
    if bool(args.source) == (args.install or args.uninstall):
        raise UsageError("expected a feed, --install, or --uninstall")
    if args.through:
        try:
            uri.normalise(args.through)
        except BadTarget as error:
            raise UsageError(f"--through {args.through}: {error}") from error
    try:
        if args.reader and not shlex.split(args.reader):
            raise UsageError("--reader: expected a command")
    except ValueError as error:
        raise UsageError(f"--reader {args.reader}: {error}") from error


def _run(command: list[str]) -> int:
    try:
        return 0 if subprocess.run(command, check=False).returncode == 0 else 1  # noqa: S603 -- the user's command
    except OSError as error:
        raise UsageError(f"--reader: {command[0]}: {error.strerror or error}") from error
