"""Clients that have the feed in one coding and request it in another, with tags as intermediaries change them."""

from collections.abc import Iterator
from dataclasses import replace

from tests.spec.supplement.promise import (
    RFC_9110_CODING,
    RFC_9110_TAGS,
    TAGS,
    Ask,
    Expect,
    Promise,
    Publish,
    Situation,
    Step,
    Wait,
)
from tests.stages.origin import a_feed

CODINGS = ("identity", "gzip", "br", "zstd")
TITLES = tuple(f"title-{number}" for number in range(60))
"""Enough items that every coding makes the feed smaller."""
FORMS = {"as it is": '"{%s}"', "weak": 'W/"{%s}"', "unquoted": "{%s}", "-gzip appended": '"{%s}-gzip"'}

GET = {coding: Ask({"Accept-Encoding": coding}, remember=coding) for coding in CODINGS}
FIELDS = {"ETag": '"theirs-1"', "Cache-Control": "max-age=600"}
OLD: tuple[Step, ...] = (Publish(a_feed(*TITLES), FIELDS), *GET.values())
NEW: tuple[Step, ...] = (
    *OLD,
    Publish(a_feed("news", *TITLES), {**FIELDS, "ETag": '"theirs-2"'}),
    Wait(601),
)


def unchanged() -> Iterator[Promise]:
    for asked in CODINGS:
        expect = Expect(304, says=("hit",), fields={"ETag": f'"{{{asked}}}"', "Content-Encoding": None}, asked=0)
        for how, form in FORMS.items():
            for held in CODINGS:
                # Every request accepts identity. A tag that was changed in other ways names no coding.
                is_named = how != "-gzip appended"
                tag = '"{identity}"' if is_named and held == "identity" else f'"{{{asked}}}"'
                yield Promise(
                    "A client that has the current version in any coding gets 304",
                    RFC_9110_TAGS,
                    Situation(OLD),
                    Ask({"Accept-Encoding": asked, "If-None-Match": form % held}),
                    replace(expect, fields={**expect.fields, "ETag": tag}),
                    f"{asked} asked, tag of {held} held, {how}",
                )
            yield Promise(
                "A client with the origin's own tag gets 304, with feedproxy's tag",
                TAGS,
                Situation(OLD),
                Ask({"Accept-Encoding": asked, "If-None-Match": (form % "x").replace("{x}", "theirs-1")}),
                expect,
                f"{asked} asked, {how}",
            )


def changed() -> Iterator[Promise]:
    for asked in CODINGS:
        coded = None if asked == "identity" else asked
        expect = Expect(
            200, says=("fwd=stale", "fwd-status=200"), fields={"Content-Encoding": coded}, has=(b"news",), asked=1
        )
        for how, form in FORMS.items():
            for held in CODINGS:
                yield Promise(
                    "A client with an older version gets the new one, in the requested coding",
                    RFC_9110_TAGS,
                    Situation(NEW),
                    Ask({"Accept-Encoding": asked, "If-None-Match": form % held}),
                    expect,
                    f"{asked} asked, tag of {held} held, {how}",
                )
            yield Promise(
                "A client with the origin's tag of an older version gets the new version",
                TAGS,
                Situation(NEW),
                Ask({"Accept-Encoding": asked, "If-None-Match": (form % "x").replace("{x}", "theirs-1")}),
                expect,
                f"{asked} asked, {how}",
            )


ACCEPTED = (
    ("", None),
    ("identity", None),
    ("gzip;q=0", None),
    ("compress", None),
    ("x-gzip", "gzip"),
    ("GZIP", "gzip"),
    ("gzip;q=0.5, br;q=1", "br"),
    ("gzip;q=1, br;q=0.5", "gzip"),
    ("br;q=0, gzip", "gzip"),
    ("zstd;q=0.001, identity;q=0", "zstd"),
    ("identity;q=1, gzip;q=0.5", None),
    ("identity;q=0, br", "br"),
)


def chosen() -> Iterator[Promise]:
    for value, coding in ACCEPTED:
        yield Promise(
            "A client gets the coding that its Accept-Encoding prefers",
            RFC_9110_CODING,
            Situation(OLD),
            Ask({"Accept-Encoding": value}),
            Expect(says=("hit",), fields={"Content-Encoding": coding}, has=(b"title-59",), asked=0),
            value or "nothing",
        )


PROMISES = (*unchanged(), *changed(), *chosen())
