"""feedproxy token: issue, list and revoke secret addresses."""

import argparse
from pathlib import Path
from typing import Any

from feedproxy import option_files
from feedproxy.access import secret_tokens
from feedproxy.admin import admin_client
from feedproxy.errors import BadTarget, UsageError
from feedproxy.feed_rules import ANY_USER
from feedproxy.http import uri
from feedproxy.http.target_uri.gateway_path import gateway_path
from feedproxy.request.upstream_and_public_urls import listener_url
from feedproxy.settings import Settings, from_options, listen_address
from feedproxy.telemetry.log_format import print_error


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "token",
        help="issue, list and revoke secret addresses of feeds",
        description="Secret addresses are for readers without support for passwords. Without a subcommand, lists them "
        "with their users. A running proxy notices a change within a second.",
    )
    location_options = argparse.ArgumentParser(add_help=False)
    location_options.add_argument("--file", metavar="FILE", default="", help="the file of tokens (option tokens_file)")
    location_options.add_argument("--config", metavar="FILE", help="or the configuration that names it")
    parser.set_defaults(run=show, file="", config=None)
    actions = parser.add_subparsers(metavar="ACTION")
    adding = actions.add_parser("add", parents=[location_options], help="issue a secret address; it is shown only once")
    adding.add_argument("user", metavar="USER", help="the user of the address")
    adding.add_argument(
        "pattern", metavar="PATTERN", help="the feeds that the address permits: an address, or a rule's pattern"
    )
    adding.add_argument(
        "--at", metavar="URL", default="", help="the proxy's own address (default: public_url, or listen)"
    )
    adding.set_defaults(run=add)
    listing = actions.add_parser("list", parents=[location_options], help="list the addresses with their users")
    listing.set_defaults(run=show)
    revoking = actions.add_parser("revoke", parents=[location_options], help="revoke secret addresses")
    revoking.add_argument("names", metavar="ID|USER", nargs="+", help="one token, or all tokens of a user")
    revoking.set_defaults(run=revoke)


def add(args: argparse.Namespace) -> int:
    """Issue a token and print its address. Return 0. Raises UsageError if the file cannot be used.

    Warn on stderr if the options `readers` name only other users: the name might be misspelt. This is no error, because
    the operator might add the user to a rule later.
    """
    path, settings, permitted = _token_file(args)
    if args.at:
        try:
            uri.normalise(args.at)
        except BadTarget as error:
            raise UsageError(f"--at {args.at}: {error}") from error
    token, secret = secret_tokens.issue(path, args.user, args.pattern)
    base = (args.at or settings.public_url or _local_address(settings)).rstrip("/")
    print(f"{token.id}  {base}{settings.endpoint_prefix}with/{secret}{_path_after_token(args.pattern, settings)}")
    if permitted and not permitted & {ANY_USER, args.user}:
        print_error(f"warning: no option readers names the user {args.user}")
    return 0


def show(args: argparse.Namespace) -> int:
    """Print all tokens without their secrets. Return 0. Raises UsageError if the file cannot be used."""
    path, *_ = _token_file(args)
    tokens = secret_tokens.list_tokens(path)
    for token in tokens:
        print(f"{token.id}  {token.user}  {token.pattern.text}")
    if not tokens:
        print_error(f"{path} has no token")
    return 0


def revoke(args: argparse.Namespace) -> int:
    """Revoke tokens. Return 1 if no token matched, otherwise 0. Raises UsageError if the file cannot be used."""
    path, *_ = _token_file(args)
    revoked = secret_tokens.revoke(path, args.names)
    for token in revoked:
        print(f"{token.id}  {token.user}  {token.pattern.text}  revoked")
    if not revoked:
        print_error(f"{path} has no token of {', '.join(args.names)}")
    return 0 if revoked else 1


def _path_after_token(pattern: str, settings: Settings) -> str:
    """Return the path after the token in a secret address: the path of the feed that `pattern` matches, or `/…` if
    `pattern` has an asterisk or no scheme."""
    if "*" in pattern or "://" not in pattern:
        return "/…"
    target = uri.normalise(pattern)
    return gateway_path(target) if not settings.upstream else "/" + target.split("/", 3)[3]


def _local_address(settings: Settings) -> str:
    """Return the address at which a reader on this machine reaches the proxy."""
    host, port = listen_address(settings.listen, "listen")
    return listener_url(settings, "127.0.0.1" if uri.is_every_address(host) else host, port)


def _token_file(args: argparse.Namespace) -> tuple[Path, Settings, set[str]]:
    """Return the path of the file of tokens, the settings, and the users that the options `readers` of settings and
    rules name. Raises UsageError if neither --file nor the configuration names a file."""
    config = admin_client.read_config(args.config)
    settings = from_options(config.options)
    permitted = {*settings.readers, *(user for rule in config.rules for user in rule.overrides.get("readers", ()))}
    name = args.file or settings.tokens_file
    if not name:
        raise UsageError("no file of tokens: expected --file FILE, or --config FILE with tokens_file")
    return option_files.expand(name), settings, permitted
