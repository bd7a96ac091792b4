"""Functions that run all checks on a document, or on a published feed."""

from collections.abc import Iterable

from feedproxy.check import (
    caching,
    connection,
    document_format,
    entries,
    head_requests,
    publishing_schedule,
    response,
    subscription_links,
    validators,
)
from feedproxy.check.checked_document import CheckedDocument, parse
from feedproxy.check.observations import FeedObservations, ProbeExchange
from feedproxy.clock import Instant
from feedproxy.notes import Note
from feedproxy.refresh.policy.bot_challenge import identify_vendor

CHECKS = (
    connection,
    head_requests,
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
    """Return the Notes on a document that was not fetched, such as a file. `subject` names the document in the
    Notes."""
    document = parse(body)
    if document.redirect is None and document.channel is None:
        return tuple(response.check_not_a_feed(document, subject))
    return tuple(_check_document(document, None, subject, now))


def check_feed(observations: FeedObservations) -> tuple[Note, ...]:
    """Return the Notes on a published feed."""
    last = observations.last
    now, document = last.at, _parse_response(last)
    is_feed = document is not None and document.channel is not None
    challenge = None if is_feed else identify_vendor(last.fields, last.content or b"")
    notes: list[Note] = [*connection.check(observations, now), *head_requests.check(observations)]
    notes += response.check(observations, document, challenge)
    if challenge or document is None:
        return tuple(notes)
    if document.channel is not None:
        notes += validators.check(observations, now)
        notes += caching.check(observations, document, now)
        repeat = observations.repeat
        # The same bytes have the same identifiers.
        if repeat is not None and repeat.content != last.content and (second := _parse_response(repeat)):
            notes += entries.check_stable_ids(document, second, observations.target)
    notes += _check_document(document, observations, observations.target, now)
    return tuple(notes)


def _check_document(
    document: CheckedDocument, observations: FeedObservations | None, subject: str, now: Instant
) -> Iterable[Note]:
    channel = document.channel
    if channel is None:
        if observations is None:
            yield from response.check_redirect_document(document, subject)
        return
    yield from document_format.check(document, channel, subject)
    yield from entries.check(document, channel, subject, now)
    yield from publishing_schedule.check(document, channel, subject)
    yield from subscription_links.check(document, channel, observations, subject)


def _parse_response(exchange: ProbeExchange) -> CheckedDocument | None:
    if exchange.status != 200 or exchange.content is None:
        return None
    return parse(exchange.content, exchange.fields.get("content-type"))
