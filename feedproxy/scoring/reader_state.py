"""State of one reader and feed: the validators, intervals and moves in the answers so far. Its size is bounded."""

from array import array
from dataclasses import dataclass, field
from urllib.parse import urljoin

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.cache.freshness import age_value
from feedproxy.clock import Instant, Seconds
from feedproxy.errors import BadTarget, NotFound
from feedproxy.feed.channel import NO_HINTS, Schedule
from feedproxy.feed.xml_redirect import Gone, Moved
from feedproxy.http import uri
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import NO_FIELDS
from feedproxy.http.target_uri.gateway_path import gateway_target
from feedproxy.scoring.reader_names import distinguishing_part
from feedproxy.scoring.scored_request import PERMANENT, REDIRECTS, REFUSALS, Poll

ISSUED_MAX = 64
"""At most this many ETags are stored for a feed, and as many dates. Older values are forgotten, and then count as never
issued."""

ADDRESSES_MAX = 32
"""Each list of addresses that is stored for one reader and feed (redirects, moves, direct requests) has at most this
many addresses."""

FOLLOW_TIMEOUT: Seconds = 600
"""A request for the target of a redirect counts as following the redirect within this many seconds."""

LOOP_TIMEOUT: Seconds = 30
"""In a redirect loop, a request after more than this many seconds is the next poll."""

HEAD_TIMEOUT: Seconds = 30
"""A GET within this many seconds of a HEAD for the same target belongs to the same poll."""

DUPLICATE_GAP: Seconds = 1
"""A second request for the same target, less than this many seconds after the first, repeats the first."""


class Validators(Struct, frozen=True):
    """ETag and Last-Modified, byte for byte as the server sent them, or "" if absent."""

    tag: str
    modified: str

    def __bool__(self) -> bool:
        return bool(self.tag or self.modified)


NO_VALIDATORS = Validators("", "")


class RecentTexts:
    """A set of the last `ISSUED_MAX` texts, stored as hashes of 8 bytes."""

    __slots__ = ("_hashes",)

    def __init__(self) -> None:
        self._hashes = array("q")

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def __contains__(self, text: str) -> bool:
        return hash(text) in self._hashes

    def add(self, text: str) -> None:
        """Add a text, unless it equals the last added text. Drop the oldest text if there are more than ISSUED_MAX."""
        number = hash(text)
        if self._hashes and self._hashes[-1] == number:
            return
        self._hashes.append(number)
        if len(self._hashes) > ISSUED_MAX:
            del self._hashes[0]


class IssuedValidators:
    """The ETags and Last-Modified dates that answers had."""

    __slots__ = ("dates", "tags")

    def __init__(self) -> None:
        self.tags = RecentTexts()
        self.dates = RecentTexts()

    def __bool__(self) -> bool:
        return bool(self.tags or self.dates)

    def __contains__(self, validators: Validators) -> bool:
        issued = (not validators.tag or validators.tag in self.tags) and (
            not validators.modified or validators.modified in self.dates
        )
        return bool(validators) and issued

    def add(self, validators: Validators) -> None:
        """Add the ETag and the date of an answer, if present."""
        if validators.tag:
            self.tags.add(validators.tag)
        if validators.modified:
            self.dates.add(validators.modified)


class ServerRefusal(Struct, frozen=True):
    """An answer that refused a request, or a failure. The reader should wait before the next request."""

    at: Instant
    status: int
    wait: Seconds | None
    """Seconds in Retry-After, or None if the field is absent or invalid."""
    answer: str
    """The answer in words, such as `503` or `an incomplete 200`."""


@dataclass(slots=True)
class RelocationSightings:
    """The answers that announced the same permanent move, or the end of the feed: their number, and the times of the
    first and the last."""

    location: str
    xml: bool
    count: int
    first: Instant
    last: Instant

    def add(self, at: Instant) -> None:
        """Count an answer at the instant `at`."""
        self.count, self.last = self.count + 1, at


@dataclass(slots=True)
class ReaderState:
    """The facts from earlier requests that the evaluators use. `learn` updates them after each evaluated request."""

    partial: bool = False
    """True if other workers answer requests of the same reader. A request that an answer of another worker can explain
    is then no violation."""
    stored: Validators = NO_VALIDATORS
    """Validators of the last complete answer."""
    confirmed: Validators = NO_VALIDATORS
    """Validators that the reader may send instead of `stored`: those of a later 304 or HEAD, or of a redirect
    document."""
    stored_at: Instant = 0.0
    stored_is_delta: bool = False
    """True if the last complete answer was a 226."""
    is_storable: bool = True
    """True if the last complete answer had no `no-store`."""
    issued: IssuedValidators = field(default_factory=IssuedValidators)
    date_fields: RecentTexts = field(default_factory=RecentTexts)
    """Values of Date in answers without Last-Modified. A reader may send them as If-Modified-Since."""
    rejected: IssuedValidators = field(default_factory=IssuedValidators)
    """Validators of answers that were incomplete or not a feed."""
    last_sent: Validators = NO_VALIDATORS
    """Validators in the reader's last conditional request."""
    last_success: Instant | None = None
    lifetime: Seconds = 0.0
    """Freshness lifetime of the copy, in seconds from `last_success`.  RFC 9111, section 4.2.1"""
    age: Seconds = 0.0
    """Age of the last complete answer: the seconds for which caches had stored it."""
    schedule: Schedule = NO_HINTS
    refusal: ServerRefusal | None = None
    user_agent_hash: int = 0
    """Hash of the distinguishing part of the last User-Agent. The part itself can be long."""
    previous: Poll | None = None
    redirect_target: str = ""
    """Target of the redirect if the previous answer was a redirect, otherwise ""."""
    chain: tuple[str, ...] = ()
    """Targets of the latest poll: the first, and those that redirects led to. At most ADDRESSES_MAX are stored."""
    permanent: dict[str, RelocationSightings] = field(default_factory=dict)
    """Permanent moves, keyed by the old address."""
    temporary: tuple[str, ...] = ()
    """Targets of temporary redirects."""
    gone: RelocationSightings | None = None
    address_validators: dict[str, Validators] = field(default_factory=dict)
    """For at most ADDRESSES_MAX addresses, the latest validators that each address sent. Validators belong to an
    address (RFC 9110, section 8.8), so a reader may keep a copy for each address."""
    direct_addresses: tuple[str, ...] = ()
    """Addresses that the reader requested without following a redirect to them."""

    def follows(self, poll: Poll) -> bool:
        """Return True if the request follows the redirect of the previous answer."""
        return (
            self.previous is not None
            and bool(self.redirect_target)
            and poll.target == self.redirect_target
            and poll.at - self.previous.at <= (LOOP_TIMEOUT if self.is_in_loop else FOLLOW_TIMEOUT)
        )

    def belongs_to_previous(self, poll: Poll) -> bool:
        """Return True if the request and the previous request are parts of one poll: the request follows a redirect, is
        the GET after a HEAD, or fetches the rest of an incomplete answer (RFC 9110, section 14)."""
        previous = self.previous
        if previous is None or poll.at - previous.at > FOLLOW_TIMEOUT:
            return False
        if self.follows(poll):
            return True
        return poll.target == previous.target and (
            self.is_get_after_head(poll) or ("range" in poll.fields and not previous.complete)
        )

    def is_get_after_head(self, poll: Poll) -> bool:
        """Return True for a GET at most HEAD_TIMEOUT seconds after a HEAD for the same target."""
        previous = self.previous
        return (
            previous is not None
            and (previous.method, poll.method) == ("HEAD", "GET")
            and poll.target == previous.target
            and poll.at - previous.at <= HEAD_TIMEOUT
        )

    def is_duplicate(self, poll: Poll) -> bool:
        """Return True if the request repeats a successful previous request too soon for the reader to have read the
        answer."""
        previous = self.previous
        return (
            previous is not None
            and previous.method == poll.method
            and previous.target == poll.target
            and previous.is_success
            and poll.at - previous.at < DUPLICATE_GAP
        )

    @property
    def is_in_loop(self) -> bool:
        """Return True if the previous answer redirects to an address of the same poll. "A client SHOULD detect and
        intervene in cyclical redirections" -- RFC 9110, section 15.4."""
        return self.redirect_target in self.chain

    def is_new_address(self, target: str) -> bool:
        """Return True if a redirect has led the reader to `target`, and no answer of `target` has had validators yet,
        so that the reader has none to send."""
        is_redirect_target = target in self.temporary or any(
            move.location == target for move in self.permanent.values()
        )
        return is_redirect_target and not self.address_validators.get(target)

    def current_validators(self, target: str) -> tuple[Validators, ...]:
        """Return the validators that the reader may send to `target`."""
        return self.stored, self.confirmed, self.address_validators.get(target, NO_VALIDATORS)

    def learn(self, poll: Poll) -> None:
        """Update the state from a request and its answer."""
        follows = self.follows(poll)
        self.chain = (*self.chain[: ADDRESSES_MAX - 1], poll.target) if follows else (poll.target,)
        if not follows and poll.target not in self.temporary:
            self.direct_addresses = _with_address(self.direct_addresses, poll.target)
        if poll.is_conditional:
            self.last_sent = _sent_validators(poll)
        self._learn_validators(poll)
        self._learn_schedule(poll)
        self._learn_moves(poll)
        self.user_agent_hash = hash(distinguishing_part(poll.fields.get("user-agent") or ""))
        # The fields of a request and its answer take kilobytes; only the fields of a redirect are read again.
        self.previous = replace(poll, fields=NO_FIELDS, answer=poll.answer if poll.status in REDIRECTS else NO_FIELDS)

    def _learn_validators(self, poll: Poll) -> None:
        validators = Validators(
            (poll.answer.get("etag") or "").strip(), (poll.answer.get("last-modified") or "").strip()
        )
        if _relocates(poll):
            self.confirmed = validators
            return
        if poll.status in (200, 226) and poll.is_success and poll.method == "GET":
            self.stored, self.confirmed, self.stored_at = validators, NO_VALIDATORS, poll.at
            self.stored_is_delta = poll.status == 226
            self.is_storable = not CacheControl.from_fields(poll.answer).no_store
        elif poll.status == 304:
            self._learn_confirmation(poll, validators)
        elif poll.status == 206 or (poll.method == "HEAD" and poll.is_success):
            # The reader may have combined parts (RFC 9111, section 3.4). A reader that polls by HEAD compares its copy
            # with the last HEAD.
            self.confirmed = validators
        elif validators and poll.status and poll.method == "GET":
            self.rejected.add(validators)
            return
        self.issued.add(validators)
        if poll.is_success or poll.status == 206:
            self._learn_address_validators(poll, validators)
        if not validators.modified and (date := poll.answer.get("date")):
            self.date_fields.add(date)

    def _learn_confirmation(self, poll: Poll, validators: Validators) -> None:
        if not self.issued and not self.stored:
            self.stored = Validators(validators.tag or _sent_validators(poll).tag, validators.modified)
            self.stored_at = poll.at
        if validators not in self.rejected:
            self.confirmed = validators  # servers answer 304 to validators of truncated answers, too

    def _learn_address_validators(self, poll: Poll, validators: Validators) -> None:
        by_address = self.address_validators
        if poll.status not in (200, 226):
            if validators in self.rejected:
                return  # as for `confirmed`
            # A 304 need not repeat both fields of the copy that it confirms.
            known = by_address.get(poll.target, Validators("", ""))
            validators = Validators(validators.tag or known.tag, validators.modified or known.modified)
        if poll.target in by_address or len(by_address) < ADDRESSES_MAX:
            by_address[poll.target] = validators

    def _learn_schedule(self, poll: Poll) -> None:
        if _relocates(poll):
            self.refusal = None
        elif poll.is_success:
            self.last_success = poll.at
            self.lifetime = _lifetime(poll, self.lifetime if poll.status == 304 else 0.0)
            self.age = age_value(poll.answer)
            self.refusal = None
        elif (
            poll.status in REFUSALS or poll.status >= 400 or not poll.status or not poll.complete or poll.status == 200
        ):
            # The rule on ended feeds (redirect_and_gone_rules.py) applies to 410.
            self.refusal = (
                None
                if poll.status == 410
                else ServerRefusal(poll.at, poll.status, _retry_after(poll), _describe_failure(poll))
            )
        if poll.content is not None and poll.content.is_feed and poll.content.relocation is None:
            self.schedule = poll.content.schedule

    def _learn_moves(self, poll: Poll) -> None:
        relocation = poll.content.relocation if poll.content is not None and poll.status == 200 else None
        self.redirect_target = resolve_redirect(poll) if poll.status in REDIRECTS else ""
        if self.redirect_target and poll.status in PERMANENT:
            self._record_move(poll, self.redirect_target, xml=False)
        elif self.redirect_target and self.redirect_target not in self.direct_addresses:
            self.temporary = _with_address(self.temporary, self.redirect_target)
        elif isinstance(relocation, Moved):
            self._record_move(poll, resolve_reference(poll, relocation.location), xml=True)
        elif poll.is_success and relocation is None:
            self.permanent.pop(poll.target, None)
        if self.is_in_loop:
            self._discount_moves(self.chain)
            self.refusal = ServerRefusal(poll.at, poll.status, None, "a redirect loop")
        elif not poll.is_success and poll.status not in (*REDIRECTS, 410):
            self._discount_moves(self.chain[:-1])
        if poll.status == 410 or isinstance(relocation, Gone):
            if self.gone is None:
                self.gone = RelocationSightings("", poll.status != 410, 1, poll.at, poll.at)
            else:
                self.gone.add(poll.at)
        elif poll.is_success:
            self.gone = None

    def _record_move(self, poll: Poll, target: str, *, xml: bool) -> None:
        sightings = self.permanent.get(poll.target)
        if sightings is not None and sightings.location == target:
            sightings.add(poll.at)
        elif len(self.permanent) < ADDRESSES_MAX:
            self.permanent[poll.target] = RelocationSightings(target, xml, 1, poll.at, poll.at)

    def _discount_moves(self, addresses: tuple[str, ...]) -> None:
        """Count one announcement fewer for each permanent move away from one of `addresses`, because the reader has
        followed the last announcement and got no feed."""
        for target in set(addresses):
            if (sightings := self.permanent.get(target)) is not None:
                sightings.count = max(0, sightings.count - 1)


def _describe_failure(poll: Poll) -> str:
    if not poll.status:
        return "no answer"
    if not poll.complete:
        return f"an incomplete {poll.status}"
    return str(poll.status) if poll.status >= 400 else f"a {poll.status} without a feed"


def _with_address(addresses: tuple[str, ...], address: str) -> tuple[str, ...]:
    """Return the addresses with `address` appended, unless it is present or there are already ADDRESSES_MAX
    addresses."""
    if address in addresses or len(addresses) >= ADDRESSES_MAX:
        return addresses
    return (*addresses, address)


def _relocates(poll: Poll) -> bool:
    return poll.status == 200 and poll.content is not None and poll.content.relocation is not None


def resolve_redirect(poll: Poll) -> str:
    """Return the target of a redirect, or "" if Location is absent or invalid."""
    reference = poll.answer.get("location") or ""
    return resolve_reference(poll, reference) if reference else ""


def resolve_reference(poll: Poll, reference: str) -> str:
    """Return the target of a URI reference in an answer, or "" if it is invalid. A gateway address becomes the target
    in its path. In reverse mode, a public address becomes the address at the upstream."""
    return _resolve(poll, reference)[0]


def stays_in_proxy(poll: Poll) -> bool:
    """Return True if a client that follows this redirect sends its next request to this proxy."""
    target, is_proxied = _resolve(poll, poll.answer.get("location") or "")
    if not target:
        return False
    via_proxy = poll.entrance == "proxy" and target.startswith("http://")
    return is_proxied or via_proxy or uri.origin_of(target) == uri.origin_of(poll.target)


def _resolve(poll: Poll, reference: str) -> tuple[str, bool]:
    """Return the target of `reference`, and True if `reference` is an address of this proxy. For an invalid
    `reference`, return "" and False."""
    try:
        absolute = uri.normalise(urljoin(poll.public or poll.target, reference).partition("#")[0])
    except (BadTarget, ValueError):
        return "", False
    if poll.public:
        target_prefix, public_prefix = _url_prefixes(poll.target, poll.public)
        is_proxied = absolute.startswith(f"{public_prefix}/")
        return (target_prefix + absolute.removeprefix(public_prefix), True) if is_proxied else (absolute, False)
    try:
        return gateway_target(absolute.removeprefix(uri.origin_of(absolute))), True
    except (BadTarget, NotFound):
        return absolute, False


def _url_prefixes(target: str, public: str) -> tuple[str, str]:
    """Return both addresses without the path segments at their ends that they have in common."""
    target_parts, public_parts = target.split("/"), public.split("/")
    while len(target_parts) > 3 and len(public_parts) > 3 and target_parts[-1] == public_parts[-1]:
        target_parts.pop()
        public_parts.pop()
    return "/".join(target_parts), "/".join(public_parts)


def _sent_validators(poll: Poll) -> Validators:
    return Validators(
        (poll.fields.combined("if-none-match") or "").strip(), (poll.fields.get("if-modified-since") or "").strip()
    )


def _lifetime(poll: Poll, default: Seconds) -> Seconds:
    """Return the freshness lifetime for a private cache (RFC 9111, section 4.2.1) minus Age, in seconds, at least 0.
    Return 0 for no-cache and no-store. If the answer states no lifetime, return `default`, from which Age is not
    subtracted."""
    control = CacheControl.from_fields(poll.answer)
    if control.no_cache or control.no_store:
        return 0.0
    lifetime = control.max_age if control.max_age is not None else poll.seconds_until("expires")
    if lifetime is None:
        return default
    return max(0.0, lifetime - age_value(poll.answer))


def _retry_after(poll: Poll) -> Seconds | None:
    value = (poll.answer.get("retry-after") or "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    seconds = poll.seconds_until("retry-after")
    return max(0.0, seconds) if seconds is not None else None  # after a past date, the reader need not wait
