"""Generator of the examples in docs/explanation/freshness.md, which the code itself computes.

    python scripts/freshness_examples.py

tests/test_docs.py compares the page with the code.
"""

import re
import sys
from calendar import timegm
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import strptime

from feedproxy.cache.stored_response import Content, StoredResponse
from feedproxy.clock import Instant
from feedproxy.feed.parse import channel_parser
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields
from feedproxy.refresh.policy.freshness_by_hints_and_history import assess
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "freshness.md"
BLOCK = re.compile(r"(?<=<!-- reckoned by scripts/freshness_examples.py -->\n).*?(?=<!-- end -->)", re.DOTALL)

RSS = '<rss version="2.0" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"><channel>{}</channel></rss>'


def at(text: str) -> Instant:
    """Return an instant of 2026 from text such as `9 Jan 23:30` (GMT)."""
    return timegm(strptime(f"{text} 2026", "%d %b %H:%M %Y"))


@dataclass(frozen=True)
class Example:
    """A feed as it was fetched, and the instant of a request."""

    stated: str
    asked: str
    fetched: str
    now: str
    http: str = ""
    hints: str = ""
    changes: tuple[str, ...] = ()

    def words(self) -> str:
        """Return the freshness in words."""
        fetched, body = at(self.fetched), RSS.format(self.hints).encode()
        lines = [("Date", format_http_date(fetched))]
        if self.http:
            name, _, value = self.http.partition(": ")
            lines.append((name, value))
        stored = StoredResponse(
            target="https://example.com/feed.xml",
            status=200,
            fields=Fields(lines),
            content=Content({"identity": body}, feed=True),
            request_time=fetched,
            response_time=fetched,
        )
        changes = tuple(at(each) for each in self.changes)
        channel = channel_parser.read(body, "application/rss+xml")
        resource = Resource(stored.target, (stored,), channel, changes, fetched)
        return assess(resource, stored, Settings(), at(self.now)).description


def skipped(element: str, child: str, values: Iterator[object] | list[str]) -> str:
    """Return the element skipHours or skipDays."""
    return f"<{element}>{''.join(f'<{child}>{value}</{child}>' for value in values)}</{element}>"


NIGHT = skipped("skipHours", "hour", iter(range(7)))
WEEKEND = skipped("skipDays", "day", ["Saturday", "Sunday"])
SUNDAY = "Last-Modified: Sun, 04 Jan 2026 00:00:00 GMT"

EXAMPLES = (
    Example("`max-age=600`", "after 5 minutes", "5 Jan 12:00", "5 Jan 12:05", "Cache-Control: max-age=600"),
    Example("`max-age=600`", "after 12 minutes", "5 Jan 12:00", "5 Jan 12:12", "Cache-Control: max-age=600"),
    Example("`ttl` of 60", "after 25 minutes", "5 Jan 12:00", "5 Jan 12:25", hints="<ttl>60</ttl>"),
    Example(
        "`max-age=600`, `ttl` of 60",
        "after 25 minutes",
        "5 Jan 12:00",
        "5 Jan 12:25",
        "Cache-Control: max-age=600",
        "<ttl>60</ttl>",
    ),
    Example(
        "`max-age=600, must-revalidate`, `ttl` of 60",
        "after 25 minutes",
        "5 Jan 12:00",
        "5 Jan 12:25",
        "Cache-Control: max-age=600, must-revalidate",
        "<ttl>60</ttl>",
    ),
    Example("`ttl` of 43200 (a month)", "after 25 minutes", "5 Jan 12:00", "5 Jan 12:25", hints="<ttl>43200</ttl>"),
    Example(
        "`sy:updatePeriod` hourly, `sy:updateFrequency` 2",
        "after 10 minutes",
        "5 Jan 12:00",
        "5 Jan 12:10",
        hints="<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>2</sy:updateFrequency>",
    ),
    Example(
        "`max-age=600`, `skipHours` 0 to 6",
        "fetched at 23:58, requested at 03:00",
        "5 Jan 23:58",
        "6 Jan 03:00",
        "Cache-Control: max-age=600",
        NIGHT,
    ),
    Example(
        "`ttl` of 60, `skipDays` Saturday and Sunday",
        "fetched on Friday at 23:30, requested on Sunday at 12:00",
        "9 Jan 23:30",
        "11 Jan 12:00",
        hints=f"<ttl>60</ttl>{WEEKEND}",
    ),
    Example(
        "nothing, but the feed has changed at 8:00 each day",
        "after 30 minutes",
        "8 Jan 9:00",
        "8 Jan 9:30",
        changes=("5 Jan 8:00", "6 Jan 8:00", "7 Jan 8:00", "8 Jan 8:00"),
    ),
    Example("a Last-Modified of two days ago", "after 30 minutes", "6 Jan 0:00", "6 Jan 0:30", SUNDAY),
    Example("nothing", "after 10 minutes", "5 Jan 12:00", "5 Jan 12:10"),
)


def table() -> str:
    """Return the examples as a table in Markdown."""
    rows = [f"| {each.stated} | {each.asked} | {each.words()} |\n" for each in EXAMPLES]
    return "".join(["| stated by HTTP or the feed | request | description |\n", "|---|---|---|\n", *rows])


def page(text: str) -> str:
    """Return the page with its table computed again."""
    return BLOCK.sub(lambda _: table(), text)


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
