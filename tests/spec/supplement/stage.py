"""Tests promises on the service alone, with an injected clock."""

import asyncio
import calendar
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, assert_never

import pytest

from feedproxy.clock import Instant, ManualClock
from feedproxy.errors import FeedproxyError
from feedproxy.http.message import Fields, Request, Response
from feedproxy.upstream.fetch_result import Fetched, Oversized
from tests.spec.supplement.promise import Answer, Ask, At, Break, Expect, Invalidate, Promise, Publish, Rule, Step, Wait
from tests.stages import play
from tests.stages.origin import Origin, OriginFetcher

BUFFER_MAX = 100_000
"""Maximum bytes of a response's content in these tests. It is small, so that tests of oversized responses are cheap."""


def instant(moment: str) -> Instant:
    """Return the instant of a moment in GMT such as 2028-02-29T23:59:59."""
    return calendar.timegm(time.strptime(moment, "%Y-%m-%dT%H:%M:%S"))


class CappedFetcher(OriginFetcher):
    """The origin in memory, with a limit of bytes like that of the real fetcher."""

    async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched | Oversized:
        found = await super().fetch(request, skip_address_check=skip_address_check)
        if isinstance(found, Fetched) and len(found.response.body) > BUFFER_MAX:
            return Oversized(found.response.status, found.response.fields)
        return found


class World:
    """A proxy, its origin and its clock, and the tags that readers hold."""

    def __init__(self, promise: Promise) -> None:
        situation = promise.situation
        settings = {"site_interval": 0, **situation.settings}
        self.clock = ManualClock(instant(situation.start))
        self.stage = play.OnService(self.clock, settings)
        self.held: dict[str, str] = {}

    async def __aenter__(self) -> "World":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(play, "OriginFetcher", CappedFetcher)
            await self.stage.open()
        self.proxy = play.Proxy(self.stage)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stage.close()

    @property
    def origin(self) -> Origin:
        return self.stage.origin

    async def step(self, step: Step) -> None:
        """Execute one step of the situation."""
        match step:
            case Publish():
                fields = _named(self._filled(step.fields))
                self.origin.publish(step.path, step.body, status=step.status, validators=step.validators, **fields)
            case Break(how):
                self._break(how)
            case At(moment, offset):
                self.clock.advance(instant(moment) + offset - self.clock.now())
            case Wait(seconds):
                self.clock.advance(seconds)
            case Rule(overrides):
                self.proxy.rule("/feed.rss", **overrides)
            case Invalidate():
                request = Request("POST", self.origin.url("/feed.rss"), Fields())
                await self.proxy.service.admin.invalidate_after_write(request, Response(200, Fields()))
            case Ask():
                await self.ask(step)
            case _:
                assert_never(step)

    def _break(self, how: int | FeedproxyError | Answer | None) -> None:
        if how is None:
            self.origin.recover()
        elif isinstance(how, tuple):
            self.origin.break_down(_answering(*how))
        else:
            self.origin.break_down(how)

    async def ask(self, ask: Ask) -> list[play.Seen]:
        """Send the requests of an act and return their responses."""
        fields = self._filled(ask.fields)
        found = await asyncio.gather(
            *(
                self.proxy.send(
                    ask.method,
                    ask.path,
                    entrance=ask.entrance,
                    address=ask.address,
                    **_named(fields),
                )
                for _ in range(ask.times)
            )
        )
        if ask.remember:
            self.held[ask.remember] = found[0].tag.strip('"')
        return found

    def filled(self, text: str) -> str:
        """Return the text with remembered tags and the origin's address in place of their names."""
        return re.sub(r"\{(\w+)\}", lambda name: {**self.held, "origin": self.origin.base}[name[1]], text)

    def _filled(self, fields: Mapping[str, str]) -> dict[str, str]:
        return {name: self.filled(value) for name, value in fields.items()}

    def check(self, seen: play.Seen, expect: Expect) -> None:
        """Assert that the response has the expected properties."""
        assert seen.status == expect.status, (seen.status, seen.cache, seen.body[:200])
        said = [word.strip() for word in seen.cache.split(";")]
        if expect.cache is not None:
            assert seen.cache == f"feedproxy; {expect.cache}", seen.cache
        for word in expect.says:
            assert word in said, seen.cache
        for name, value in expect.fields.items():
            found = seen.fields.combined(name)
            assert found == (None if value is None else self.filled(value)), (name, found)
        for part in expect.has:
            assert self.filled(part.decode()).encode() in seen.plain, seen.plain[:400]
        for part in expect.lacks:
            assert part not in seen.plain, seen.plain[:400]


async def keeps(promise: Promise) -> None:
    """Test a promise. Raises AssertionError if it is not kept."""
    async with World(promise) as world:
        for step in promise.situation.steps:
            await world.step(step)
        before = world.origin.requests
        expect = promise.expectation
        found = await world.ask(promise.act)
        asked = world.origin.requests - before
        world.check(found[-1], expect)
        if expect.asked is not None:
            assert asked == expect.asked, asked
        heard = world.origin.heard if world.origin.log else Fields()
        if expect.told is not None:
            assert re.fullmatch(expect.told, heard.get("user-agent") or ""), heard.get("user-agent")
        for name in expect.unheard:
            assert name not in heard, heard


def _named(fields: Mapping[str, str]) -> dict[str, Any]:
    return {name.replace("-", "_"): value for name, value in fields.items()}


def _answering(status: int, body: bytes, fields: Mapping[str, str]) -> Callable[[Request], Response]:
    lines = Fields([("Content-Type", "text/html"), *fields.items()])
    return lambda _: Response(status, lines, body)
