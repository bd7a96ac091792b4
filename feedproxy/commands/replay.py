"""feedproxy replay: serve recorded traffic, or dated versions of a feed, as an origin with virtual time."""

import argparse
import asyncio
import signal
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from feedproxy.clock import AcceleratedClock, Clock, ManualClock
from feedproxy.errors import CannotListen, UsageError
from feedproxy.http.date import format_rfc3339
from feedproxy.settings import listen_address


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "replay",
        help="serve recorded traffic as an origin with a virtual clock",
        description="Serve the answers that origins gave at a virtual instant: by Host, as an explicit proxy (http), "
        "and as a gateway. No request is sent to origins. An unknown target gets 504.",
    )
    parser.add_argument("source", metavar="FILE.har|DIR", nargs="?", help="a recording, or a folder of dated versions")
    parser.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:8080", help="the address for readers")
    parser.add_argument(
        "--admin", metavar="HOST:PORT", default="127.0.0.1:8081", help="the address at which the clock is moved"
    )
    parser.add_argument(
        "--at", metavar="TIME", default="", help="the first instant: ISO 8601, @UNIX, +LENGTH (first version)"
    )
    time = parser.add_mutually_exclusive_group()
    time.add_argument("--speed", metavar="N", type=float, default=1.0, help="ratio of virtual to real time (1)")
    time.add_argument("--step", action="store_true", help="only POST /advance?seconds=N moves the clock")
    parser.add_argument(
        "--per-request",
        metavar="SECONDS",
        type=float,
        default=0.0,
        help="with --step: each answer also moves the clock",
    )
    for name, metavar, text in (
        ("--strip", "FIELD", "remove a field, or ttl, skipHours, skipDays, sy; may be repeated"),
        (
            "--add",
            "HINT",
            "add or override a hint (ttl=60, skipHours=…, sy=hourly/2, max-age=60, gzip, 'Name: value'); repeatable",
        ),
        ("--fault", "NAME[@when]", "inject a fault; may be repeated"),
    ):
        parser.add_argument(name, metavar=metavar, action="append", default=[], help=text)
    parser.add_argument("--seed", metavar="N", default="1", help="seed of the random numbers (1)")
    parser.add_argument("--list-faults", action="store_true", help="print the catalogue of faults and exit")
    parser.add_argument("--record", metavar="FILE.har", help="record the requests of readers, at virtual instants")
    parser.add_argument(
        "--proxy", action="store_true", help="run a whole feedproxy with the same clock in front of the replay"
    )
    parser.add_argument("--config", metavar="FILE", default="", help="with --proxy: its configuration (YAML)")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="with --proxy: set an option")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve the replay until a signal stops it, or print the faults for --list-faults. Return 0. Raises UsageError if
    an argument is invalid."""
    from feedproxy.lab.replay.replay_source import ReplayOptions, feed_table, make_replay, open_source  # noqa: PLC0415
    from feedproxy.lab.replay.time_arguments import parse_instant  # noqa: PLC0415

    if args.list_faults:
        return _list_faults()
    _check(args)
    world = open_source(Path(args.source), read_recording)
    start = parse_instant(args.at, world.first) if args.at else world.first
    clock: Clock = ManualClock(start) if args.step else AcceleratedClock(start, args.speed)
    wishes = ReplayOptions(tuple(args.strip), tuple(args.add), tuple(args.fault), args.seed)
    replay = make_replay(world, wishes, start, plain=args.proxy)
    for name, feed in feed_table(world):
        count, first, last = len(feed.versions), feed.versions[0].since, feed.versions[-1].since
        count_text = "1 version" if count == 1 else f"{count} versions"
        print(f"{name}: {count_text}, {format_rfc3339(first)} to {format_rfc3339(last)}")
    return asyncio.run((_serve_proxy if args.proxy else _serve_replay)(args, replay, clock))


def _check(args: argparse.Namespace) -> None:
    if not args.source:
        raise UsageError("expected FILE.har, a recording, or DIR, a folder of dated versions")
    if not 0 < args.speed <= 1e9:
        raise UsageError(f"--speed {args.speed:g}: expected a number above 0")
    if args.per_request and not args.step:
        raise UsageError("--per-request requires --step: any other clock runs by itself")
    if not 0 <= args.per_request <= 1e9:
        raise UsageError(f"--per-request {args.per_request:g}: expected a positive number of seconds")
    if (args.set or args.config) and not args.proxy:
        raise UsageError(f"{'--set' if args.set else '--config'} requires --proxy: a bare replay has no options")


async def _serve_replay(args: argparse.Namespace, replay: Any, clock: Clock) -> int:
    from feedproxy.admin.admin_authorization import AdminAuthorization, admin_address  # noqa: PLC0415
    from feedproxy.admin.replay_clock import replay_admin  # noqa: PLC0415
    from feedproxy.lab.replay.replay_listener import ReplayListener  # noqa: PLC0415

    recorder = make_recorder(args.record, args.seed) if args.record else None
    listener = ReplayListener(
        replay,
        clock,
        observe=recorder.record if recorder else None,
        answered=_advance_callback(clock, args.per_request),
    )
    admin = replay_admin(clock, lambda: _status(replay))
    host, port = listen_address(args.listen, "listen")
    stopped = _stop_event()
    try:
        await listener.start(host, port)
    except OSError as error:
        raise CannotListen(f"cannot listen on {args.listen}: {error.strerror or error}") from error
    try:
        if args.admin:
            host, port = admin_address(args.admin, "")
            await admin.start(AdminAuthorization(host), host, port)
            print(f"the admin listener is at {admin.url}", file=sys.stderr, flush=True)
        print(f"feedproxy listens on {listener.url}", flush=True)
        await stopped.wait()
    finally:
        await admin.stop()
        await listener.close()
        if recorder:
            recorder.close(clock.now())
    return 0


async def _serve_proxy(args: argparse.Namespace, replay: Any, clock: Clock) -> int:
    from feedproxy.lab.replay.replay_listener import ReplayListener  # noqa: PLC0415
    from feedproxy.process import proxy_process  # noqa: PLC0415 -- only this pays for importing mitmproxy
    from feedproxy.process.option_sources import ServePlan  # noqa: PLC0415 -- only this pays for importing mitmproxy
    from feedproxy.server.replay_backend import make_replay_app  # noqa: PLC0415
    from feedproxy.telemetry import log_setup  # noqa: PLC0415 -- only this pays for importing mitmproxy

    listener = ReplayListener(replay, clock, answered=_advance_callback(clock, args.per_request))
    await listener.start("127.0.0.1", 0)
    log_setup.log_to()
    options: dict[str, Any] = {
        "listen": args.listen,
        "admin": args.admin,
        "store": "memory:",
        # Content that streams past the cache would come from the real origin. Therefore nothing may stream.
        **{"allow_ports": [], "connect_ports": [], "allow_private": False},
        **({"record": args.record} if args.record else {}),
    }
    try:
        # With --step, the schedule is off: only requested operations take place.
        sets = ("polling=off", *args.set) if args.step else tuple(args.set)
        plan = ServePlan(args.config, sets, options)
        announce: Callable[[str], None] = lambda address: print(f"feedproxy listens on {address}", flush=True)  # noqa: E731
        code = await proxy_process.serve(plan, announce, make_replay_app(listener.url, clock, args.seed))
        assert isinstance(code, int)
        return code
    finally:
        await listener.close()


def read_recording(path: Path) -> Any:
    """Return the recording in a HAR file, or in a flow file of mitmproxy. The file may be a pipe. Raises UsageError if
    it cannot be read."""
    from feedproxy.lab.record import har_format  # noqa: PLC0415

    try:
        with path.open("rb") as file:
            if not file.peek(1)[:1].isdigit():  # a flow file begins with the length of its first flow
                return har_format.parse(file.read(), str(path))
            from feedproxy.server.mitm.exchanges_from_flows import read_flow_file  # noqa: PLC0415

            return read_flow_file(file, str(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


def make_recorder(file: str, seed: str, *, keep: tuple[str, ...] = ()) -> Any:
    """Return a recorder that writes to `file`. The pseudonyms in the recording depend on `seed`. `keep` has the meaning
    of the option `record_keep`. Raises UsageError if the file cannot be written."""
    from feedproxy.lab.record.har_redaction import Redactor  # noqa: PLC0415
    from feedproxy.lab.record.har_writer import HarWriter  # noqa: PLC0415
    from feedproxy.lab.record.recorder import Recorder  # noqa: PLC0415

    return Recorder(HarWriter(Path(file)), Redactor(seed.encode("utf-8", "surrogateescape"), keep))


def _advance_callback(clock: Clock, seconds: float) -> Callable[[], None] | None:
    return (lambda: clock.advance(seconds)) if seconds and isinstance(clock, ManualClock) else None


def _status(replay: Any) -> dict[str, Any]:
    from feedproxy.lab.replay.replay_source import feed_table  # noqa: PLC0415

    return {
        "feeds": [
            {
                "address": name,
                "versions": len(feed.versions),
                "first": format_rfc3339(feed.versions[0].since),
                "last": format_rfc3339(feed.versions[-1].since),
            }
            for name, feed in feed_table(replay.world)
        ]
    }


def _stop_event() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set from now on."""
    stopped = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    return stopped


def _list_faults() -> int:
    from feedproxy.lab.replay.faults import GROUPS  # noqa: PLC0415

    for title, group in GROUPS:
        print(f"{title}\n")
        for fault in group:
            first = " ".join((fault.__doc__ or "").split("\n\n")[0].split())
            print(f"  {fault.name}\n{textwrap.indent(textwrap.fill(first, 100), '      ')}")
        print()
    return 0
