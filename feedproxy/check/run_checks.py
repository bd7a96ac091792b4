"""Functions that run all checks on a document, or on a published feed."""

from collections.abc import Iterable, Iterator

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
from feedproxy.check.checked_document import CheckedDocument, parse
from feedproxy.check.observations import FeedObservations, ProbeExchange
from feedproxy.clock import Instant
from feedproxy.feed.channel import Channel
from feedproxy.notes import Note
from feedproxy.refresh.policy.bot_challenge import identify_vendor

CHECKS = (
    connection,
    response,
    validators,
    caching,
    document_format,
    entries,
    publishing_schedule,
    subscription_links,
)
"""The modules with checks, in the order of their subjects: first the connection, last the links."""


def check_document(body: bytes, now: Instant, subject: str = "") -> tuple[Note, ...]:
    """Return the Notes on a document that was not fetched. `subject` names the document in the Notes."""
    document = parse(body)
    if document.channel is None:
        return _about(subject, response.check_not_a_feed(document))
    return _about(subject, _check_document(document, document.channel, None, now))


def check_feed(observations: FeedObservations) -> tuple[Note, ...]:
    """Return the Notes on a published feed."""
    last, document = observations.last, _parse_response(observations.last)
    channel = document.channel if document is not None else None
    challenge = identify_vendor(last.fields, last.content or b"") if channel is None else None
    notes = [
        *connection.check(observations),
        *response.check(observations, document, challenge),
    ]
    if document is not None and channel is not None:
        notes += validators.check(observations)
        notes += caching.check(observations, document)
        repeat = observations.repeat
        # The same bytes have the same identifiers.
        if repeat is not None and repeat.content != last.content and (second := _parse_response(repeat)):
            notes += entries.check_stable_ids(document, second)
        notes += _check_document(document, channel, observations, last.at)
    return _about(observations.target, notes)


def _check_document(
    document: CheckedDocument, channel: Channel, observations: FeedObservations | None, now: Instant
) -> Iterator[Note]:
    yield from document_format.check(document, channel)
    yield from entries.check(document, channel, now)
    yield from publishing_schedule.check(document, channel)
    yield from subscription_links.check(document, channel, observations)


def _about(subject: str, notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the Notes. A Note without a subject is about the feed itself, and gets `subject`."""
    checked = tuple(notes)
    for note in checked:
        note.subject = note.subject or subject
    return checked


def _parse_response(exchange: ProbeExchange) -> CheckedDocument | None:
    if exchange.status != 200 or exchange.content is None:
        return None
    return parse(exchange.content, exchange.fields.get("content-type"))
