"""Checks of caching: freshness lifetime, its agreement with the feed's hints, Vary, cookies, and the clock."""

from collections.abc import Iterator

from feedproxy.cache.freshness import span
from feedproxy.check.document import Document
from feedproxy.check.observations import FeedObservations
from feedproxy.clock import Instant, Seconds
from feedproxy.feed.channel import Schedule
from feedproxy.findings import Category, Level, Note
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.date import parse_http_date
from feedproxy.http.field_values import split_list
from feedproxy.http.message import Fields

_CLOCK_TOLERANCE = 300.0


def check(observations: FeedObservations, document: Document, now: Instant) -> Iterator[Note]:
    """Yield the Notes on caching. `now` is the time of the first answer."""
    fields = observations.last.fields
    schedule = document.channel.schedule if document.channel is not None else Schedule()
    yield from _check_lifetime(observations.target, fields, schedule, document.publishing_interval, now)
    yield from _check_vary(observations, fields)
    if "set-cookie" in fields:
        yield SETS_COOKIE(observations.target)
    date = parse_http_date(fields.get("date") or "", now)
    if date is not None and "age" not in fields and abs(date - now) > _CLOCK_TOLERANCE:
        yield CLOCK_WRONG(observations.target, off=span(abs(date - now)), way="fast" if date > now else "slow")


def _check_lifetime(
    subject: str, fields: Fields, schedule: Schedule, pace: Seconds | None, now: Instant
) -> Iterator[Note]:
    control = CacheControl.from_fields(fields)
    if control.no_store or control.private:
        yield KEPT_BY_NOBODY(subject, directive="no-store" if control.no_store else "private")
        return
    if control.no_cache:
        yield ASKED_EACH_TIME(subject)
        return
    lifetime = stated_lifetime(fields, now)
    ttl = schedule.ttl
    if lifetime is None:
        if ttl is None and schedule.period is None and schedule.interval is None:
            yield NO_LIFETIME(subject)
        return
    if ttl is not None and lifetime > 60 * ttl:
        yield TTL_SHORTER_THAN_MAX_AGE(subject, ttl=ttl, lifetime=span(lifetime))
    elif lifetime == 0:
        yield ASKED_EACH_TIME(subject)
    elif pace is not None and lifetime > max(2 * pace, 3600):
        yield KEPT_LONGER_THAN_NEWS(subject, lifetime=span(lifetime), pace=span(pace))
    else:
        yield LIFETIME_STATED(subject, lifetime=span(lifetime))


def stated_lifetime(fields: Fields, now: Instant) -> Seconds | None:
    """Return the freshness lifetime for shared caches (RFC 9111, section 4.2.1); None if HTTP gives none."""
    control = CacheControl.from_fields(fields)
    for lifetime in (control.s_maxage, control.max_age):
        if lifetime is not None:
            return lifetime
    if "expires" not in fields:
        return None
    date = parse_http_date(fields.get("date") or "", now) or now
    return max(0.0, (parse_http_date(fields.get("expires") or "", now) or 0.0) - date)


class KEPT_BY_NOBODY(Note):
    level = Level.WARN
    category = Category.CACHING
    summary = "Cache-Control says `%(directive)s`: no shared copy may be kept."
    advice = """\
Frameworks say so for pages of people who are logged in. A public feed gains nothing by it, and every reader of an
office costs you a transfer of its own. Say `max-age` with what the feed allows."""
    reference = "RFC 9111, sections 5.2.2.5 and 5.2.2.7"


class ASKED_EACH_TIME(Note):
    level = Level.INFO
    category = Category.CACHING
    summary = "Every cache has to ask each time, whatever it holds."
    advice = "That is fresh, and cheap as long as validators work. Some minutes of `max-age` would take load off you."
    reference = "RFC 9111, sections 5.2.2.4 and 4.3"


class NO_LIFETIME(Note):
    level = Level.INFO
    category = Category.CACHING
    summary = "Neither HTTP nor the feed says how long a copy is good."
    advice = "Readers guess, usually half an hour or an hour. Say `Cache-Control: max-age`, and `ttl` in RSS."
    reference = "RFC 9111, section 4.2.2; RSS Feed State, TTL"


class TTL_SHORTER_THAN_MAX_AGE(Note):
    level = Level.WARN
    category = Category.CACHING
    summary = "The feed asks to be read sooner than HTTP allows it to be refreshed."
    advice = """\
The channel's `ttl` is %(ttl)s minutes, but by HTTP every cache on the way keeps it for %(lifetime)s. Readers that
honour `ttl` will be answered with the old copy. Let both say the same."""
    reference = "RSS Feed State, TTL; RFC 9111, section 5.2.2.1"


class KEPT_LONGER_THAN_NEWS(Note):
    level = Level.WARN
    category = Category.CACHING
    summary = "Copies are good for %(lifetime)s, and there is something new about every %(pace)s."
    advice = "Readers behind a cache get the news late. Let the lifetime be no longer than the time between entries."
    reference = "RFC 9111, section 4.2"


class LIFETIME_STATED(Note):
    level = Level.GOOD
    category = Category.CACHING
    summary = "HTTP says how long a copy is good: %(lifetime)s."
    advice = "Nothing is to be done."
    reference = "RFC 9111, section 4.2.1"


def _check_vary(observations: FeedObservations, fields: Fields) -> Iterator[Note]:
    names = {name.lower() for name in split_list(fields.combined("vary") or "")}
    if "*" in names:
        yield VARIES_BY_ANYTHING(observations.target)
        return
    for name in ("user-agent", "cookie", "referer"):
        if name in names:
            yield VARIES_BY_READER(observations.target, name=name.title())
    plain = observations.plain
    is_negotiated = plain is not None and plain.status == 200 and plain.coding != observations.last.coding
    if is_negotiated and "accept-encoding" not in names:
        yield VARY_MISSING(observations.target)


class VARIES_BY_ANYTHING(Note):
    level = Level.WARN
    category = Category.CACHING
    summary = "`Vary: *` says that no answer suits any other request."
    advice = "No cache may use its copy without asking. Name the fields that the answer depends on, or none."
    reference = "RFC 9110, section 12.5.5"


class VARIES_BY_READER(Note):
    level = Level.WARN
    category = Category.CACHING
    summary = "The answer is said to depend on %(name)s."
    advice = "Nearly every reader's is another, so caches keep a copy for each. Leave it out: a feed is one for all."
    reference = "RFC 9110, section 12.5.5; RFC 9111, section 4.1"


class VARY_MISSING(Note):
    level = Level.WARN
    category = Category.CACHING
    summary = "The response is compressed for clients that accept it, but Vary does not list Accept-Encoding."
    advice = "A cache may then give compressed bytes to a reader that cannot decode them. Say `Vary: Accept-Encoding`."
    reference = "RFC 9110, section 12.5.5"


class SETS_COOKIE(Note):
    level = Level.WARN
    category = Category.PRIVACY
    summary = "The feed sets a cookie."
    advice = "Readers do not log in, many caches keep nothing that has a cookie, and people are followed. Leave it out."
    reference = "RFC 6265, section 3; RFC 9111, section 7.3"


class CLOCK_WRONG(Note):
    level = Level.WARN
    category = Category.CACHING
    summary = "The server's clock is %(off)s %(way)s, by its Date."
    advice = "Ages and lifetimes are reckoned from it, and Last-Modified compared with it. Set the clock (NTP)."
    reference = "RFC 9110, section 6.6.1"
