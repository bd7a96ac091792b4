"""feedproxy token: give out secret addresses, list them, take them back."""

import argparse
import os
from pathlib import Path
from typing import Any

from feedproxy.access import secret_tokens
from feedproxy.config import FILE_VARIABLE, from_environment, load, option_specs
from feedproxy.errors import UsageError
from feedproxy.http import uri
from feedproxy.settings import Settings, listen_address


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "token",
        help="give out secret addresses of feeds, and take them back",
        description="Secret addresses for readers that know no passwords: who has which, if nothing else is said. "
        "A running proxy sees a change in a second.",
    )
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--file", metavar="FILE", default="", help="the file of tokens (option tokens_file)")
    where.add_argument("--config", metavar="FILE", default="", help="or the configuration that names it")
    parser.set_defaults(run=show, parser=parser, file="", config="")
    doings = parser.add_subparsers(metavar="ACTION")
    adding = doings.add_parser("add", parents=[where], help="give one out; it is shown this once")
    adding.add_argument("user", metavar="USER", help="whose it is")
    adding.add_argument("pattern", metavar="PATTERN", help="the feeds it is good for: an address, or a rule's pattern")
    adding.add_argument(
        "--at", metavar="URL", default="", help="the proxy's own address (default: public_url, else listen)"
    )
    adding.set_defaults(run=add, parser=parser)
    listing = doings.add_parser("list", parents=[where], help="who has which")
    listing.set_defaults(run=show, parser=parser)
    taking = doings.add_parser("revoke", parents=[where], help="take back")
    taking.add_argument("names", metavar="ID|USER", nargs="+", help="one token, or all of a user's")
    taking.set_defaults(run=revoke, parser=parser)


def add(args: argparse.Namespace) -> int:
    """Make one and say the address. Raises UsageError."""
    path, options = _file(args)
    token, secret = secret_tokens.issue(path, args.user, args.pattern)
    base = (args.at or options.get("public_url") or _local_address(options)).rstrip("/")
    prefix = options.get("endpoint_prefix", "/-/")
    print(f"{token.id}  {base}{prefix}with/{secret}{_path(args.pattern, options)}")
    return 0


def show(args: argparse.Namespace) -> int:
    """Who has which; never the secret, which nobody knows any more. Raises UsageError."""
    path, _ = _file(args)
    for each in secret_tokens.list_tokens(path):
        print(f"{each.id}  {each.user}  {each.pattern.text}")
    return 0


def revoke(args: argparse.Namespace) -> int:
    """Take back; 1 where there was nothing to take. Raises UsageError."""
    path, _ = _file(args)
    gone = secret_tokens.revoke(path, args.names)
    for each in gone:
        print(f"{each.id}  {each.user}  {each.pattern.text}  revoked")
    return 0 if gone else 1


def _path(pattern: str, options: dict[str, Any]) -> str:
    """What follows the token: the feed, where the pattern names one."""
    if "*" in pattern or "://" not in pattern:
        return "/…"
    target = uri.normalise(pattern)
    return uri.gateway_path(target) if not options.get("upstream") else "/" + target.split("/", 3)[3]


def _local_address(options: dict[str, Any]) -> str:
    """Return the address at which a reader on this machine reaches the proxy."""
    host, port = listen_address(options.get("listen", Settings().listen), "listen")
    host = host if host not in ("", "0.0.0.0", "::") else "127.0.0.1"  # noqa: S104 -- compared, not bound
    scheme = "https" if options.get("tls_certificate") else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _file(args: argparse.Namespace) -> tuple[Path, dict[str, Any]]:
    file = args.config or os.environ.get(FILE_VARIABLE, "")
    options = dict(load(file, option_specs(), foreign=True).options) if file else {}
    options |= from_environment(os.environ, option_specs())
    name = args.file or options.get("tokens_file", "")
    if not name:
        raise UsageError("no file of tokens: give --file FILE, or --config FILE that sets tokens_file")
    return Path(str(name)).expanduser(), options
