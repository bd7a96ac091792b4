"""Checks of caching: freshness lifetime, schedule hints that contradict it, Vary, cookies, and the server's clock."""

from collections.abc import Iterator

from feedproxy.cache.freshness import explicit_lifetime
from feedproxy.check.checked_document import CheckedDocument
from feedproxy.check.observations import FeedObservations
from feedproxy.check.publishing_schedule import delays_entries, publishing_interval
from feedproxy.clock import Instant, Seconds
from feedproxy.durations_and_sizes import exact_span, span
from feedproxy.feed.channel import NO_HINTS, Schedule
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.date import parse_http_date
from feedproxy.http.field_values import split_list
from feedproxy.http.message import Fields
from feedproxy.notes import Category, Level, Note

_CLOCK_TOLERANCE = 300.0
"""Maximum accepted difference between Date and this machine's clock, in seconds."""


def check(observations: FeedObservations, document: CheckedDocument) -> Iterator[Note]:
    fields, now = observations.last.fields, observations.last.at
    schedule = document.channel.schedule if document.channel is not None else NO_HINTS
    yield from _check_lifetime(fields, schedule, publishing_interval(document), now)
    yield from _check_vary(observations, fields)
    if "set-cookie" in fields:
        yield SETS_COOKIE()
    date = parse_http_date(fields.get("date") or "", now)
    if date is not None and "age" not in fields and abs(date - now) > _CLOCK_TOLERANCE:
        yield CLOCK_WRONG(difference=span(abs(date - now)), direction="fast" if date > now else "slow")


def _check_lifetime(fields: Fields, schedule: Schedule, interval: Seconds | None, now: Instant) -> Iterator[Note]:
    control = CacheControl.from_fields(fields)
    if control.no_store or control.private:
        yield STORING_FORBIDDEN(directive="no-store" if control.no_store else "private")
        return
    if control.no_cache:
        yield VALIDATION_REQUIRED()
        return
    explicit, ttl = explicit_lifetime(fields, now), schedule.ttl
    if explicit is None:
        if ttl is None and schedule.period is None and schedule.interval is None and not schedule.finished:
            yield LIFETIME_MISSING()
        return
    lifetime, _ = explicit
    if ttl is not None and lifetime > 60 * ttl:
        yield TTL_SHORTER_THAN_MAX_AGE(ttl=ttl, lifetime=exact_span(lifetime))
    elif lifetime == 0:
        yield VALIDATION_REQUIRED()
    elif interval is not None and delays_entries(lifetime, interval):
        yield LIFETIME_ABOVE_CHANGE_INTERVAL(lifetime=span(lifetime), interval=span(interval))
    else:
        yield LIFETIME_STATED(lifetime=span(lifetime))


class STORING_FORBIDDEN(Note, level=Level.WARN, category=Category.CACHING):
    summary = "Cache-Control is `%(directive)s`: shared caches must not store the feed."
    advice = """\
    Web frameworks send this directive for pages of logged-in users. A public feed does not need the directive. Without
    shared caches every reader in an office costs a transfer of its own. Send `max-age` with the time that the feed
    allows."""
    reference = "RFC 9111, sections 5.2.2.5 and 5.2.2.7"


class VALIDATION_REQUIRED(Note, level=Level.INFO, category=Category.CACHING):
    summary = "Caches must validate the feed before each use."
    advice = """\
    Readers always get the current feed, and the cost is low as long as validators work. A `max-age` of some minutes
    would reduce the number of requests."""
    reference = "RFC 9111, sections 5.2.2.4 and 4.3"


class LIFETIME_MISSING(Note, level=Level.INFO, category=Category.CACHING):
    summary = "Neither HTTP nor the feed specifies a freshness lifetime."
    advice = """\
    Readers choose an interval themselves, usually half an hour or an hour. Send `Cache-Control: max-age`, and in RSS
    also `ttl`."""
    reference = "RFC 9111, section 4.2.2; RSS Feed State, TTL"


class TTL_SHORTER_THAN_MAX_AGE(Note, level=Level.WARN, category=Category.CACHING):
    summary = "The feed's ttl is shorter than its freshness lifetime in HTTP."
    advice = """\
    The channel's `ttl` is %(ttl)s minutes, but HTTP lets every cache on the path answer from its copy for
    %(lifetime)s. Readers that honour `ttl` get the old copy. Set both to the same time."""
    reference = "RSS Feed State, TTL; RFC 9111, section 5.2.2.1"


class LIFETIME_ABOVE_CHANGE_INTERVAL(Note, level=Level.WARN, category=Category.CACHING):
    summary = "The freshness lifetime is %(lifetime)s, but the feed changes about every %(interval)s."
    advice = """\
    Readers behind a cache get new entries late. Set a lifetime that is no longer than the usual time between
    entries."""
    reference = "RFC 9111, section 4.2"


class LIFETIME_STATED(Note, level=Level.GOOD, category=Category.CACHING):
    summary = "HTTP specifies a freshness lifetime: %(lifetime)s."
    reference = "RFC 9111, section 4.2.1"


def _check_vary(observations: FeedObservations, fields: Fields) -> Iterator[Note]:
    names = {name.lower() for name in split_list(fields.combined("vary") or "")}
    if "*" in names:
        yield VARY_ASTERISK()
        return
    for name in ("user-agent", "cookie", "referer"):
        if name in names:
            yield VARY_BY_CLIENT_FIELD(field=name.title())
    plain = observations.plain
    is_negotiated = plain is not None and plain.status == 200 and plain.coding != observations.last.coding
    if is_negotiated and "accept-encoding" not in names:
        yield VARY_MISSING()


class VARY_ASTERISK(Note, level=Level.WARN, category=Category.CACHING):
    summary = "`Vary: *` keeps caches from answering any other request with this response."
    advice = """\
    Caches must send every request to the server. List the request fields that the response depends on, or omit Vary."""
    reference = "RFC 9110, section 12.5.5"


class VARY_BY_CLIENT_FIELD(Note, level=Level.WARN, category=Category.CACHING):
    summary = "Vary lists the field %(field)s."
    advice = """\
    The field in Vary differs for nearly every reader, so caches store a copy for each reader. A feed is usually the
    same for all readers: remove the field from Vary."""
    reference = "RFC 9110, section 12.5.5; RFC 9111, section 4.1"


class VARY_MISSING(Note, level=Level.WARN, category=Category.CACHING):
    summary = "The response is compressed only for some clients, but Vary does not list Accept-Encoding."
    advice = """\
    A cache can then send compressed content to a reader that cannot decode it. Send `Vary: Accept-Encoding`."""
    reference = "RFC 9110, section 12.5.5"


class SETS_COOKIE(Note, level=Level.WARN, category=Category.PRIVACY):
    summary = "The response sets a cookie."
    advice = """\
    Feed readers do not log in. Many caches do not store responses with a cookie, and cookies let a server track
    people. Remove Set-Cookie."""
    reference = "RFC 6265, section 3; RFC 9111, section 7.3"


class CLOCK_WRONG(Note, level=Level.WARN, category=Category.CACHING):
    summary = "The server's clock is %(difference)s %(direction)s, according to Date."
    advice = """\
    Caches compute ages and lifetimes from Date and compare Last-Modified with it. Synchronise the clock (NTP)."""
    reference = "RFC 9110, section 6.6.1"
