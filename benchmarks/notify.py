"""Notification of ten thousand subscribers of one feed. With `--kill`, the notifying process is killed midway and
restarted.

    python -m benchmarks.notify [--subscribers N] [--kill]

Everything runs on loopback: a callback that counts, and an App with a changing feed in a process of its own. The output
has the seconds, the growth of the process's memory, the number of concurrent calls, and the numbers of subscribers that
were notified twice or not at all.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from aiohttp import web

from feedproxy.app import App
from feedproxy.clock import SystemClock
from feedproxy.notify.delivery import delivery_worker
from feedproxy.notify.subscription_table import Role, State, Subscription
from tests.stages.notify import TARGET, Plain
from tests.stages.origin import Origin, OriginFetcher, a_feed

DEADLINE = 300


def megabytes() -> float:
    """Return the memory of this process in megabytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def tell(store: str, port: int, subscribers: int, *, again: bool) -> None:
    """Run the notifying process: it changes its feed or, after a restart, continues with the remaining deliveries."""
    delivery_worker.MAX_PER_HOST = (
        delivery_worker.MAX_CONCURRENT
    )  # all callbacks are on one host here, which is unusual
    origin, plain = Origin(SystemClock()), Plain()
    app = App(SystemClock(), make_client=lambda _: OriginFetcher(origin))
    app.notification_plugins["plain"] = plain.join
    app.configure({"store": store, "site_interval": 0, "feed_min_interval": 0, "allow_private": True})
    notifications = app.notifications
    if not again:
        end = time.time() + 86_400
        for number in range(subscribers):
            callback = f"http://127.0.0.1:{port}/{number}"
            await notifications.subscriptions.put(
                Subscription(Role.SUBSCRIBER, "plain", TARGET, callback, end, State.ACTIVE)
            )
        for title in ("one", "two"):
            origin.publish("/feed.xml", a_feed(title))
            before, began = megabytes(), time.monotonic()
            await app.service.admin.refresh(TARGET)
    else:
        before, began = megabytes(), time.monotonic()
    await asyncio.sleep(0.2)
    peak = before
    while await notifications.queue.count_waiting() or notifications.delivery_worker.running_count:
        peak = max(peak, megabytes())
        await asyncio.sleep(0.05)
    count = notifications.delivery_worker.counts.delivered
    print(f"{count} told in {time.monotonic() - began:.1f} s; {peak - before:.1f} MB more than before", flush=True)
    await app.close()


async def run(subscribers: int, *, kill: bool) -> int:
    """Run the callback and the processes. Return 1 if a subscriber was not notified."""
    told, now, most = Counter[str](), 0, 0

    async def called(request: web.Request) -> web.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        told[request.path] += 1
        await asyncio.sleep(0.002)
        now -= 1
        return web.Response()

    application = web.Application()
    application.router.add_get("/{number}", called)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    with tempfile.TemporaryDirectory() as store:
        common = [sys.executable, "-m", "benchmarks.notify", "--subscribers", str(subscribers), "--port", str(port)]
        async with asyncio.timeout(DEADLINE):
            teller = await asyncio.create_subprocess_exec(*common, "--store", store)
            while kill and len(told) < subscribers // 2 and teller.returncode is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            if kill:
                teller.kill()
                print(f"killed when {len(told)} had been told")
                await teller.wait()
                teller = await asyncio.create_subprocess_exec(*common, "--store", store, "--again")
            await teller.wait()
    await runner.cleanup()
    twice = sum(1 for count in told.values() if count > 1)
    print(f"{len(told)} of {subscribers} told, {twice} of them twice; {most} calls at once")
    return 0 if len(told) == subscribers else 1


def main() -> int:
    """Parse the command line, and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--subscribers", type=int, default=10_000)
    parser.add_argument("--kill", action="store_true")
    for name in ("--store", "--port"):
        parser.add_argument(name, default="", help=argparse.SUPPRESS)
    parser.add_argument("--again", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.store:
        asyncio.run(tell(args.store, int(args.port), args.subscribers, again=args.again))
        return 0
    return asyncio.run(run(args.subscribers, kill=args.kill))


if __name__ == "__main__":
    sys.exit(main())
