"""feedproxy ping: tell ping sinks that a site changed."""

import argparse
import asyncio
import functools
import json
from typing import Any
from urllib.parse import urlsplit

from feedproxy.client import admin_client
from feedproxy.errors import FeedproxyError, UsageError
from feedproxy.http.message import Response
from feedproxy.http.redaction import without_secrets
from feedproxy.notify.pings import messages as pings
from feedproxy.notify.pings.messages import Ping
from feedproxy.notify.pings.sinks import PingSink, interpret_response, own_user_agent, ping_message, read_sink
from feedproxy.notify.protocol import Delivered, Verdict
from feedproxy.settings import Settings
from feedproxy.upstream.address_policy import AddressPolicy
from feedproxy.upstream.callback_client import CallbackClient
from feedproxy.upstream.parent_proxy import parent_of


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "ping",
        help="tell ping sinks that a site changed",
        description="Tell ping sinks that a site changed: those named, else those of a running proxy (ping_sinks).",
    )
    parser.add_argument("url", metavar="URL", help="the site's home page, or its feed")
    parser.add_argument("--name", metavar="N", default="", help="the site's name (its host)")
    parser.add_argument("--feed", metavar="F", default="", help="the feed's address, told to sinks that take it")
    parser.add_argument(
        "--sink",
        metavar="S",
        action="append",
        default=[],
        help="an XML-RPC address, `extended:` before it for extendedPing, or a template with {name}, {url}, {feed}",
    )
    parser.add_argument("--allow-private", action="store_true", help="let names of sinks lead to private addresses")
    admin_client.add_options(parser)
    parser.set_defaults(run=ping, parser=parser)


def ping(args: argparse.Namespace) -> int:
    """Ping; 1 where a sink did not take it. Raises UsageError."""
    if not args.sink:
        told = admin_client.ask(args, "POST", "ping", {"url": args.url, "name": args.name, "feed": args.feed})
        lines = [f"{each}  queued" for each in told["sinks"]]
        print(json.dumps(told, ensure_ascii=False, indent=1) if args.format == "json" else "\n".join(lines))
        return 0
    sinks = [read_sink(each) for each in args.sink]
    try:
        said = pings.extended([args.name or urlsplit(args.url).netloc, args.url, "", args.feed])
    except FeedproxyError as error:
        raise UsageError(str(error)) from error
    settings = admin_client.request_settings(args.allow_private)
    verdicts = asyncio.run(_sent(sinks, said, settings))
    views = [
        {"sink": without_secrets(sink.url), "ok": isinstance(each, Delivered), "words": each.reason}
        for sink, each in zip(sinks, verdicts, strict=True)
    ]
    if args.format == "json":
        print(json.dumps({"ok": all(each["ok"] for each in views), "sinks": views}, ensure_ascii=False, indent=1))
    else:
        for each in views:
            print(f"{each['sink']}  {'told' if each['ok'] else 'not told'}  {each['words']}".rstrip())
    return 0 if all(each["ok"] for each in views) else 1


async def _sent(sinks: list[PingSink], said: Ping, settings: Settings) -> list[Verdict]:
    proxy = functools.partial(parent_of, settings.upstream_proxy)
    caller = CallbackClient(AddressPolicy(settings.allow_private), parent_of=proxy)
    try:
        return await asyncio.gather(*(_one(caller, each, said) for each in sinks))
    finally:
        await caller.close()


async def _one(caller: CallbackClient, sink: PingSink, said: Ping) -> Verdict:
    message = ping_message(sink, own_user_agent(Settings()), name=said.name, url=said.url, feed=said.feed)
    answer: Response | FeedproxyError
    try:
        answer = await caller.call(
            message.method, message.url, message.fields, message.body, trust=message.address_trust
        )
    except FeedproxyError as error:
        answer = error
    return interpret_response(sink, answer)
