"""What a reader must know of a feed by what it has been answered so far; bounded, however long it goes on."""

from array import array
from dataclasses import dataclass, field, replace
from urllib.parse import urljoin

from feedproxy.clock import Instant, Seconds
from feedproxy.errors import BadTarget, NotFound
from feedproxy.feed.channel import Schedule
from feedproxy.feed.xml_redirect import Gone, Moved
from feedproxy.http import uri
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields
from feedproxy.scoring.scored_request import PERMANENT, REDIRECTS, REFUSALS, Poll

ISSUED_MAX = 64
"""Tags remembered of a feed, and dates; older ones count as never given."""

ADDRESSES_MAX = 32
"""Addresses of one feed remembered."""

FOLLOW_TIMEOUT: Seconds = 600
"""A redirect is followed at once, or that was no following."""

RETRY_MAX: Seconds = 2 * 86_400
"""The longest Retry-After that anybody is held to: a slip for years is nobody's to obey."""


NO_FIELDS = Fields()


@dataclass(frozen=True, slots=True)
class Validators:
    """What came with an answer, as it was written; empty where it did not come."""

    tag: str
    modified: str

    def __bool__(self) -> bool:
        return bool(self.tag or self.modified)


class RecentTexts:
    """The last `GIVEN_MAX` texts, as hashes: 8 bytes each, however long the texts are."""

    __slots__ = ("_hashes",)

    def __init__(self) -> None:
        self._hashes = array("q")

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def __contains__(self, text: str) -> bool:
        return hash(text) in self._hashes

    def add(self, text: str) -> None:
        """Remember a text; the same text twice in a row is one."""
        number = hash(text)
        if self._hashes and self._hashes[-1] == number:
            return
        self._hashes.append(number)
        if len(self._hashes) > ISSUED_MAX:
            del self._hashes[0]


class IssuedValidators:
    """Validators that came with answers: their tags, and their dates."""

    __slots__ = ("dates", "tags")

    def __init__(self) -> None:
        self.tags = RecentTexts()
        self.dates = RecentTexts()

    def __bool__(self) -> bool:
        return bool(self.tags or self.dates)

    def __contains__(self, said: Validators) -> bool:
        known = (not said.tag or said.tag in self.tags) and (not said.modified or said.modified in self.dates)
        return bool(said) and known

    def add(self, said: Validators) -> None:
        """Remember what came with an answer."""
        if said.tag:
            self.tags.add(said.tag)
        if said.modified:
            self.dates.add(said.modified)


@dataclass(frozen=True, slots=True)
class ServerRefusal:
    """When the server wants to be left in peace, and how it said so."""

    at: Instant
    status: int
    wait: Seconds | None
    """By Retry-After; None where that was not said, or made no sense."""


@dataclass(slots=True)
class RelocationSightings:
    """How often something lasting was said, and when."""

    location: str
    xml: bool
    count: int
    first: Instant
    last: Instant


@dataclass(slots=True)
class ReaderState:
    """Kept up by `learn`, after each request has been judged."""

    partial: bool = False
    """Others answer this reader, too, and what they have told it is not known: what it may have from them is not held
    against it."""
    held: Validators = Validators("", "")
    """Those of the last whole answer."""
    other: Validators = Validators("", "")
    """What a 304 gave for the same, or a redirect document: neither can be held against anybody."""
    held_at: Instant = 0.0
    held_delta: bool = False
    """They came with a 226."""
    stores: bool = True
    """The last answer may be kept (no no-store)."""
    given: IssuedValidators = field(default_factory=IssuedValidators)
    dates: RecentTexts = field(default_factory=RecentTexts)
    """Date fields of answers without Last-Modified: with those one may ask, too."""
    broken: IssuedValidators = field(default_factory=IssuedValidators)
    """Of answers that were not whole, or no feed."""
    returned: Validators = Validators("", "")
    """What the reader asked with last."""
    success: Instant | None = None
    lifetime: Seconds = 0.0
    """HTTP's, in seconds from `success`."""
    schedule: Schedule = field(default_factory=Schedule)
    refusal: ServerRefusal | None = None
    previous: Poll | None = None
    expected: str = ""
    """Where the answer before leads."""
    hops: int = 0
    permanent: dict[str, RelocationSightings] = field(default_factory=dict)
    """Addresses that have moved for good."""
    temporary: tuple[str, ...] = ()
    """Addresses that were led to for this time only."""
    gone: RelocationSightings | None = None
    vouched: tuple[str, ...] = ()
    """Addresses that have given validators."""
    own: tuple[str, ...] = ()
    """Addresses that the reader came to by itself before it was led there."""

    def follows(self, poll: Poll) -> bool:
        """Whether this request only goes where the answer before led."""
        before = self.previous
        return (
            before is not None and bool(self.expected) and poll.target == self.expected
        ) and poll.at - before.at <= FOLLOW_TIMEOUT

    def is_new_address(self, target: str) -> bool:
        """Whether a move has led here, and nothing that was answered here could be asked with."""
        led = target in self.temporary or any(each.location == target for each in self.permanent.values())
        return led and target not in self.vouched

    def learn(self, poll: Poll) -> None:
        """Take in what a request was answered."""
        follows = self.follows(poll)
        self.hops = self.hops + 1 if follows else 0
        if not follows and poll.target not in self.temporary:
            self.own = _with_address(self.own, poll.target)
        if poll.is_conditional:
            self.returned = _returned_validators(poll)
        self._learn_validators(poll)
        self._learn_pace(poll)
        self._learn_moves(poll)
        # The fields of a request and its answer take kilobytes, and of these only a redirect's are looked at again.
        self.previous = replace(poll, fields=NO_FIELDS, answer=poll.answer if poll.status in REDIRECTS else NO_FIELDS)

    def _learn_validators(self, poll: Poll) -> None:
        said = Validators((poll.answer.get("etag") or "").strip(), (poll.answer.get("last-modified") or "").strip())
        if _relocates(poll):
            self.other = said
            return
        if poll.status in (200, 226) and poll.succeeded and poll.method == "GET":
            self.held, self.other, self.held_at = said, Validators("", ""), poll.at
            self.held_delta = poll.status == 226
            self.stores = not CacheControl.from_fields(poll.answer).no_store
        elif poll.status == 304:
            if not self.given and not self.held:
                self.held, self.held_at = Validators(said.tag or _returned_validators(poll).tag, said.modified), poll.at
            if said not in self.broken:
                self.other = said  # a validator of what broke off is confirmed, too, and is none the better for it
        elif said and poll.status:
            self.broken.add(said)
            return
        if said:
            self.given.add(said)
            self.vouched = _with_address(self.vouched, poll.target)
        if not said.modified and (date := poll.answer.get("date")):
            self.dates.add(date)

    def _learn_pace(self, poll: Poll) -> None:
        if _relocates(poll):
            self.refusal = None
        elif poll.succeeded:
            self.success = poll.at
            self.lifetime = _lifetime(poll, self.lifetime if poll.status == 304 else 0.0)
            self.refusal = None
        elif poll.status in REFUSALS or poll.status >= 400 or not poll.status or not poll.whole or poll.status == 200:
            self.refusal = (
                None if poll.status in (404, 410) else ServerRefusal(poll.at, poll.status, _retry_after(poll))
            )
        if poll.content is not None and poll.content.is_feed and poll.content.relocation is None:
            self.schedule = poll.content.schedule

    def _learn_moves(self, poll: Poll) -> None:
        self.expected = ""
        said = poll.content.relocation if poll.content is not None and poll.status == 200 else None
        if poll.status in REDIRECTS:
            self.expected = location(poll)
            if poll.status in PERMANENT and self.expected:
                self._seen_moved(poll, self.expected, xml=False)
            elif self.expected and self.expected not in self.own:
                self.temporary = _with_address(self.temporary, self.expected)
        elif isinstance(said, Moved):
            self._seen_moved(poll, resolve_location(poll, said.location), xml=True)
        elif poll.succeeded and said is None:
            self.permanent.pop(poll.target, None)
        if poll.status == 410 or isinstance(said, Gone):
            before = self.gone
            if before is None:
                self.gone = RelocationSightings("", poll.status != 410, 1, poll.at, poll.at)
            else:
                before.count, before.last = before.count + 1, poll.at
        elif poll.succeeded:
            self.gone = None

    def _seen_moved(self, poll: Poll, target: str, *, xml: bool) -> None:
        before = self.permanent.get(poll.target)
        if before is not None and before.location == target:
            before.count, before.last = before.count + 1, poll.at
        elif len(self.permanent) < ADDRESSES_MAX:
            self.permanent[poll.target] = RelocationSightings(target, xml, 1, poll.at, poll.at)


def _with_address(addresses: tuple[str, ...], another: str) -> tuple[str, ...]:
    """The addresses, another among them as long as there is room: nearly always there is one alone."""
    if another in addresses or len(addresses) >= ADDRESSES_MAX:
        return addresses
    return (*addresses, another)


def _relocates(poll: Poll) -> bool:
    return poll.status == 200 and poll.content is not None and poll.content.relocation is not None


def location(poll: Poll) -> str:
    """Where a redirect leads; empty where that cannot be understood."""
    said = poll.answer.get("location") or ""
    return resolve_location(poll, said) if said else ""


def resolve_location(poll: Poll, reference: str) -> str:
    """An address that an answer names, as a target.

    Through a gateway its addresses mean the targets behind it, and in reverse mode the public ones the upstream's.
    """
    return _resolve(poll, reference)[0]


def stays_in_proxy(poll: Poll) -> bool:
    """Whether who follows this redirect asks here again: else nobody sees whether it was followed."""
    target, unfolded = _resolve(poll, poll.answer.get("location") or "")
    if not target:
        return False
    through_us = poll.entrance == "proxy" and target.startswith("http://")
    return unfolded or through_us or uri.origin_of(target) == uri.origin_of(poll.target)


def _resolve(poll: Poll, reference: str) -> tuple[str, bool]:
    """The target, and whether it was told in the form of an address of ours."""
    try:
        absolute = uri.normalise(urljoin(poll.public or poll.target, reference).partition("#")[0])
    except (BadTarget, ValueError):
        return "", False
    if poll.public:
        ours, theirs = _url_prefixes(poll.target, poll.public)
        inside = absolute.startswith(f"{theirs}/")
        return (ours + absolute.removeprefix(theirs), True) if inside else (absolute, False)
    try:
        return uri.gateway_target(absolute.removeprefix(uri.origin_of(absolute))), True
    except (BadTarget, NotFound):
        return absolute, False


def _url_prefixes(target: str, public: str) -> tuple[str, str]:
    """What stands before the path that a target and its public form have in common."""
    ours, theirs = target.split("/"), public.split("/")
    while len(ours) > 3 and len(theirs) > 3 and ours[-1] == theirs[-1]:
        ours.pop()
        theirs.pop()
    return "/".join(ours), "/".join(theirs)


def _returned_validators(poll: Poll) -> Validators:
    return Validators(
        (poll.fields.combined("if-none-match") or "").strip(), (poll.fields.get("if-modified-since") or "").strip()
    )


def _lifetime(poll: Poll, before: Seconds) -> Seconds:
    """RFC 9111, section 4.2.1, for a cache of one's own; less the time that it has been under way."""
    control = CacheControl.from_fields(poll.answer)
    if control.no_cache or control.no_store:
        return 0.0
    said = control.max_age if control.max_age is not None else poll.seconds_until("expires")
    if said is None:
        return before
    age = poll.answer.get("age") or "0"
    return max(0.0, said - (float(age) if age.isdigit() and len(age) < 10 else 0.0))


def _retry_after(poll: Poll) -> Seconds | None:
    said = (poll.answer.get("retry-after") or "").strip()
    if said.isascii() and said.isdigit():
        return min(float(said[:12]), RETRY_MAX)
    until = poll.seconds_until("retry-after")
    return min(until, RETRY_MAX) if until is not None and until >= 0 else None
