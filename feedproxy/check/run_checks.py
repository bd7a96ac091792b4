"""The whole of a check: everything that was seen, judged from every side."""

from collections.abc import Iterable

from feedproxy.check import (
    caching,
    connection,
    document_format,
    entries,
    publishing_schedule,
    response,
    subscription_links,
    validators,
)
from feedproxy.check.document import Document, parse
from feedproxy.check.observations import Exchange, FeedObservations
from feedproxy.clock import Instant
from feedproxy.findings import Note

JUDGES = (connection, response, validators, caching, document_format, entries, publishing_schedule, subscription_links)
"""In the order in which a reader meets what they judge."""


def check_document(body: bytes, now: Instant, subject: str = "") -> tuple[Note, ...]:
    """The Notes on a document alone, which was saved or is not sent yet."""
    document = parse(body)
    if document.redirect is None and document.channel is None:
        return tuple(response.check_not_a_feed(document, subject))
    return tuple(_document(document, None, subject, now))


def check_feed(seen: FeedObservations, *, challenge: str | None = None) -> tuple[Note, ...]:
    """Return the Notes on a published feed. `challenge` is the vendor of a page received in its place."""
    now = seen.last.at
    document = _parsed(seen.last)
    notes: list[Note] = [*connection.check(seen, now), *response.check(seen, document, challenge)]
    if challenge or document is None:
        return tuple(notes)
    if document.channel is not None:
        notes += validators.check(seen, now)
        notes += caching.check(seen, document, now)
        again = _parsed(seen.again) if seen.again is not None else None
        if again is not None:
            notes += entries.check_stable_ids(document, again, seen.at)
    notes += _document(document, seen, seen.at, now)
    return tuple(notes)


def _document(document: Document, seen: FeedObservations | None, subject: str, now: Instant) -> Iterable[Note]:
    channel = document.channel
    if channel is None:
        if seen is None:
            yield from response.check_redirect_document(document, subject)
        return
    yield from document_format.check(document, channel, subject)
    yield from entries.check(document, channel, subject, now)
    yield from publishing_schedule.check(document, channel, subject)
    yield from subscription_links.check(document, channel, seen, subject)


def _parsed(exchange: Exchange) -> Document | None:
    if exchange.status != 200 or exchange.content is None:
        return None
    return parse(exchange.content, exchange.fields.get("content-type"))
