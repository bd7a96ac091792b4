"""The bytes of one response are of one version, for any requests and any published versions."""

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from feedproxy.clock import ManualClock
from feedproxy.http import ranges
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response
from tests.stages.play import OnService, Proxy, Seen
from tests.waiting import PATIENCE

NOON = 1_795_176_000.0
VALIDATORS = ("strong", "weak", "date", "none")


@dataclass(frozen=True)
class Publish:
    """A new version with this length and this kind of validator."""

    length: int
    validator: str
    max_age: int
    hears_if_range: bool
    sends_at_most: int


@dataclass(frozen=True)
class Ask:
    """A reader's request for these bytes, or for all bytes if `range` is empty."""

    range: str
    path: str = "/a"
    method: str = "GET"


@dataclass(frozen=True)
class Wait:
    minutes: int


type Step = Publish | Ask | Wait

POSITIONS = st.sampled_from([0, 0, 3, 4, 5, 6, 9, 12])
RANGES = st.one_of(
    st.just(""),
    st.builds("bytes={}-{}".format, POSITIONS, POSITIONS),
    st.builds("bytes={}-".format, POSITIONS),
    st.builds("bytes=-{}".format, POSITIONS),
)
PATHS = st.sampled_from(["/a", "/b", "/c", "/d"])
"""Several paths, because parts of a file are only stored until the whole file is."""
VERSIONS = st.builds(
    Publish,
    st.sampled_from([10, 10, 11]),
    st.sampled_from(VALIDATORS),
    st.sampled_from([600, 600, 60, 0]),
    st.booleans(),
    st.sampled_from([99, 99, 99, 3]),
)
STEPS = st.lists(
    st.one_of(
        st.builds(Ask, RANGES, PATHS),
        st.builds(Ask, st.sampled_from(["bytes=0-4", "bytes=5-"]), PATHS),
        st.builds(Ask, st.just(""), PATHS, st.sampled_from(["GET", "GET", "HEAD"])),
        VERSIONS,
        st.builds(Wait, st.sampled_from([0, 2, 15])),
    ),
    min_size=6,
    max_size=20,
)


class Server:
    """An origin whose versions each repeat one byte, which shows bytes of two versions in one response."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.versions: list[Publish] = []
        self.published = 0.0

    def publish(self, version: Publish) -> None:
        self.clock.advance(seconds=1)  # Each version has its own second; otherwise its date would not be a validator.
        self.versions.append(version)
        self.published = self.clock.now()

    def body(self, number: int) -> bytes:
        return bytes([65 + number]) * self.versions[number].length

    def answer(self, request: Request) -> Response:
        number, version = len(self.versions) - 1, self.versions[-1]
        said = {
            "strong": ("ETag", f'"{number}"'),
            "weak": ("ETag", 'W/"same"'),
            "date": ("Last-Modified", format_http_date(self.published)),
            "none": ("X", "y"),
        }[version.validator]
        lines = [("Date", format_http_date(self.clock.now())), ("Cache-Control", f"max-age={version.max_age}"), said]
        fields, body, asked = Fields(lines), self.body(number), request.fields
        conditions = (asked.get("if-none-match"), asked.get("if-modified-since"))
        if said[0] in ("ETag", "Last-Modified") and said[1] in conditions and said[1] != 'W/"same"':
            return Response(304, fields)
        if not version.hears_if_range or asked.get("if-range") in (None, said[1]):
            match ranges.select(asked.get("range"), len(body)) if request.method == "GET" else None:
                case (int(first), int(last)):
                    last = min(last, first + version.sends_at_most - 1)
                    told = f"bytes {first}-{last}/{len(body)}"
                    return Response(206, fields.with_added("Content-Range", told), body[first : last + 1])
                case ranges.Unsatisfiable() as nothing:
                    return Response(416, fields.with_added("Content-Range", nothing.content_range))
        return Response(200, fields, b"" if request.method == "HEAD" else body)


def looks_right(server: Server, ask: Ask, seen: Seen) -> None:
    assert seen.status in (200, 206, 416), (seen.status, seen.cache)
    if seen.status == 416 or ask.method == "HEAD":
        return
    assert len(set(seen.body)) == 1, "bytes of two versions"
    number = seen.body[0] - 65
    version, whole = server.versions[number], server.body(number)
    if version.validator == "strong":
        assert seen.tag == f'"{number}"'
    if seen.status == 200:
        assert seen.body == whole
        assert "content-range" not in seen.fields
        return
    told = (seen.fields.get("content-range") or "").removeprefix("bytes ")
    first, last, length = (int(each) for each in told.replace("/", "-").split("-"))
    assert length == len(whole)
    assert seen.body == whole[first : last + 1]
    match ranges.select(ask.range, length):
        case (int(wanted), int(end)):
            assert wanted == first
            assert last == end or version.sends_at_most < 99
        case _:
            raise AssertionError("a part for one who asked for none")


@settings(max_examples=300, deadline=None)
@given(VERSIONS, STEPS)
def test_bytes_of_a_response_are_of_one_version(first: Publish, steps: list[Step]) -> None:
    async def run() -> None:
        clock = ManualClock(NOON)
        stage = OnService(clock, {"site_interval": 0})
        await stage.open()
        server = Server(clock)
        server.publish(first)
        stage.origin.speak(server.answer)
        proxy = Proxy(stage)
        try:
            for step in steps:
                match step:
                    case Publish():
                        server.publish(step)
                    case Wait(minutes):
                        clock.advance(minutes=minutes)
                    case Ask(wanted, path, method):
                        fields: dict[str, Any] = {"range": wanted} if wanted else {}
                        looks_right(server, step, await proxy.send(method, path, **fields))
        finally:
            await stage.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
