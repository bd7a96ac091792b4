"""feedproxy serve: run the proxy."""

import argparse
import asyncio
import contextlib
import os
from typing import Any

import msgspec.structs

from feedproxy.config.environment_and_set import FILE_VARIABLE
from feedproxy.process import signals_and_umask, systemd


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "serve",
        help="run the proxy",
        description="Run the proxy: gateway and explicit proxy, or reverse mode with --upstream.",
    )
    parser.add_argument("--config", metavar="FILE", help="configuration file, YAML (default: FEEDPROXY_CONFIG)")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="set an option; may be repeated"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="the address for readers (127.0.0.1:8080)")
    parser.add_argument("--admin", metavar="HOST:PORT", help="the address for the operator (127.0.0.1:8081)")
    parser.add_argument("--upstream", metavar="URL", help="serve this origin in reverse mode")
    parser.add_argument("--public-url", metavar="URL", help="the address at which readers reach this proxy")
    parser.add_argument("--store", metavar="DIR|redis://…", help="folder of the store, memory:, or redis://HOST/")
    parser.add_argument("--workers", metavar="N", type=int, help="number of processes that serve readers (1)")
    parser.add_argument("--allow-private", action="store_true", help="permit targets at private addresses")
    parser.add_argument(
        "--record", metavar="FILE.har", help="record the requests of readers and the answers of origins"
    )
    parser.add_argument(
        "--check", action="store_true", help="check the configuration and the files it names, print it, and exit"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal stops the proxy. Return the exit code."""
    signals_and_umask.prepare()
    # Only this command imports mitmproxy, which takes time.
    from feedproxy.process import proxy_process, supervisor  # noqa: PLC0415
    from feedproxy.process.option_sources import ServePlan  # noqa: PLC0415
    from feedproxy.telemetry import log_setup  # noqa: PLC0415

    flag_options: dict[str, Any] = {}
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
            flag_options[name] = value
    if args.allow_private:
        flag_options["allow_private"] = True
    log_setup.log_to()
    file = args.config if args.config is not None else os.environ.get(FILE_VARIABLE, "")
    plan = ServePlan(file, tuple(args.set), flag_options, os.environ)
    if args.check:
        for line in asyncio.run(proxy_process.check(plan)):
            print(line)
        print(f"configuration OK{f': {file}' if file else ''}")
        return 0

    readers, operators = systemd.sockets()
    plan = msgspec.structs.replace(plan, sockets=readers, admin_sockets=operators)

    def announce(address: str) -> None:
        with contextlib.suppress(OSError):  # the reader of standard output has ended, or the disk is full
            print(f"feedproxy listens on {address}", flush=True)

    done = asyncio.run(proxy_process.serve(plan, announce))
    return supervisor.Supervisor(plan, done, announce).run() if isinstance(done, proxy_process.WorkerOptions) else done
