"""feedproxy ping: notify ping sinks that a site has changed."""

import argparse
import asyncio
import functools
from typing import Any
from urllib.parse import urlsplit

from feedproxy.admin import admin_client
from feedproxy.errors import FeedproxyError, UsageError
from feedproxy.http.target_uri.url_redaction import without_secrets
from feedproxy.notify.notification_protocol import Answer, Delivered, Verdict
from feedproxy.notify.pings import ping_messages as pings
from feedproxy.notify.pings.ping_messages import Ping
from feedproxy.notify.pings.sinks import PingSink, interpret_response, ping_message, read_ping_sink
from feedproxy.request.upstream_request import own_user_agent
from feedproxy.settings import Settings
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.callback_client import CallbackClient
from feedproxy.upstream.parent_proxy import parent_of


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "ping",
        help="notify ping sinks that a site has changed",
        description="Notify ping sinks that a site has changed: the named sinks, or those of a running proxy "
        "(ping_sinks).",
    )
    parser.add_argument("url", metavar="URL", help="the site's home page, or its feed")
    parser.add_argument("--name", metavar="N", default="", help="the site's name (its host)")
    parser.add_argument("--feed", metavar="F", default="", help="the feed's address, for sinks that accept it")
    parser.add_argument(
        "--sink",
        metavar="S",
        action="append",
        default=[],
        help="an XML-RPC address, with the prefix `extended:` for extendedPing, or a template with {name}, {url}, "
        "{feed}",
    )
    parser.add_argument("--allow-private", action="store_true", help="permit sinks at private addresses")
    admin_client.add_options(parser)
    parser.set_defaults(run=ping)


def ping(args: argparse.Namespace) -> int:
    """Ping the named sinks, or let a running proxy ping its sinks. Return 1 if a named sink did not accept the ping,
    otherwise 0. Raises UsageError if an argument is invalid, or if no proxy runs."""
    if not args.sink:
        result = admin_client.ask(args, "POST", "ping", {"url": args.url, "name": args.name, "feed": args.feed})
        admin_client.print_result(args, result, [f"{sink}  queued" for sink in result["sinks"]])
        return 0
    sinks = [read_ping_sink(sink) for sink in args.sink]
    try:
        site_ping = pings.parse_extended_ping([args.name or urlsplit(args.url).netloc, args.url, "", args.feed])
    except FeedproxyError as error:
        raise UsageError(str(error)) from error
    settings = admin_client.request_settings(args.allow_private, args.config)
    verdicts = asyncio.run(_send_all(sinks, site_ping, settings))
    views = [
        {"sink": without_secrets(sink.url), "ok": isinstance(verdict, Delivered), "words": verdict.reason}
        for sink, verdict in zip(sinks, verdicts, strict=True)
    ]
    ok = all(view["ok"] for view in views)
    lines = [f"{view['sink']}  {'told' if view['ok'] else 'not told'}  {view['words']}".rstrip() for view in views]
    admin_client.print_result(args, {"ok": ok, "sinks": views}, lines)
    return 0 if ok else 1


async def _send_all(sinks: list[PingSink], site_ping: Ping, settings: Settings) -> list[Verdict]:
    proxy = functools.partial(parent_of, settings.upstream_proxy)
    caller = CallbackClient(AddressPolicy(settings.allow_private), parent_of=proxy)
    try:
        return await asyncio.gather(*(_send(caller, sink, site_ping) for sink in sinks))
    finally:
        await caller.close()


async def _send(caller: CallbackClient, sink: PingSink, site_ping: Ping) -> Verdict:
    message = ping_message(sink, name=site_ping.name, url=site_ping.url, feed=site_ping.feed)
    fields = message.fields.with_added("User-Agent", own_user_agent(Settings()))
    answer: Answer
    try:
        answer = await caller.call(message.method, message.url, fields, message.body, trust=message.address_trust)
    except FeedproxyError as error:
        answer = error
    return interpret_response(sink, answer)
