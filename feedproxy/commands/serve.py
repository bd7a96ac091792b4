"""feedproxy serve: run the proxy."""

import argparse
import asyncio
import contextlib
import dataclasses
import os
import signal
from typing import Any

from feedproxy import systemd
from feedproxy.config import FILE_VARIABLE


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "serve",
        help="run the proxy",
        description="Run the proxy: gateway and explicit proxy, or reverse with --upstream.",
    )
    parser.add_argument("--config", metavar="FILE", help="configuration file, YAML (default: FEEDPROXY_CONFIG)")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="set an option; may be repeated"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="where readers connect (127.0.0.1:8080)")
    parser.add_argument("--admin", metavar="HOST:PORT", help="where the operator connects (127.0.0.1:8081)")
    parser.add_argument("--upstream", metavar="URL", help="stand in front of this origin (reverse)")
    parser.add_argument("--public-url", metavar="URL", help="the address under which readers reach this proxy")
    parser.add_argument("--store", metavar="DIR|redis://…", help="folder of the store, memory:, or redis://HOST/")
    parser.add_argument("--workers", metavar="N", type=int, help="processes that serve readers (1)")
    parser.add_argument("--allow-private", action="store_true", help="let targets be at private addresses")
    parser.add_argument("--record", metavar="FILE.har", help="record what readers ask and what origins say")
    parser.add_argument(
        "--check", action="store_true", help="check the configuration and the files it names, print it, and exit"
    )
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop."""
    # Only this command pays for importing mitmproxy.
    from feedproxy import serve, supervisor  # noqa: PLC0415

    with contextlib.suppress(AttributeError, ValueError):  # no such signal; not the main thread
        # Until there is a handler: it must not end what is just starting.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    given: dict[str, Any] = {}
    for name, value in (
        ("listen", args.listen),
        ("admin", args.admin),
        ("upstream", args.upstream),
        ("public_url", args.public_url),
        ("store", args.store),
        ("record", args.record),
        ("workers", args.workers),
    ):
        if value is not None:
            given[name] = value
    if args.allow_private:
        given["allow_private"] = True
    serve.log_to()
    file = args.config if args.config is not None else os.environ.get(FILE_VARIABLE, "")
    plan = serve.ServePlan(file, tuple(args.set), given, os.environ)
    if args.check:
        for line in asyncio.run(serve.check(plan)):
            print(line)
        print(f"configuration OK{f': {file}' if file else ''}")
        return 0

    readers, operators = systemd.sockets()
    plan = dataclasses.replace(plan, sockets=readers, admin_sockets=operators)

    def announce(address: str) -> None:
        print(f"feedproxy listens on {address}", flush=True)

    done = asyncio.run(serve.serve(plan, announce))
    return supervisor.Supervisor(plan, done, announce).run() if isinstance(done, serve.WorkerOptions) else done
