"""Response templates: prepared responses in which only the time-dependent fields are rewritten.

These are Age, the ttl in Cache-Status, and Cache-Control if the proxy writes it (proxy/repeated_hit.py). A response
with other time-dependent parts gets no template. The head is dropped when its hit state ends (access_log.py). The body
is the same object as in the store.
"""

import itertools
import math
import os
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from feedproxy.clock import Instant
from feedproxy.feed.channel import Schedule
from feedproxy.http.message import NO_FIELDS, Fields, Response
from feedproxy.proxy.repeated_hit import HitConditions, HitFields, HitState, HitTerms, ReusableHit
from feedproxy.request.context import ClientContext
from feedproxy.server.response_head import encode_head
from feedproxy.store.resource import Resource
from feedproxy.subscribers.reader_pseudonyms import Pseudonym

TEMPLATE_OVERHEAD = 1024
"""Bytes that a template takes in addition to its head: for its objects, and the log lines that it caches."""

LOG_LINES_MAX = 1024
"""A template caches the log lines of at most this many clients. At the limit, it drops all of them."""

NO_CLIENT = ("", b"")

_NEVER: Instant = -math.inf

_NO_HIT_FIELDS = HitFields(0, "", "", b"", "")

_AGE, _CACHE_STATUS, _CACHE_CONTROL, _OWN = range(4)
"""Kinds of the values that are inserted into a head: those of three fields that depend on time, and of OWN_FIELDS."""

OWN_FIELDS = frozenset(
    [
        "cf-ray",
        "content-length",
        "date",
        "etag",
        "expires",
        "last-modified",
        "link",
        "report-to",
        "surrogate-key",
        "x-request-id",
        "x-served-by",
    ]
)
"""Names of fields that have a different value for each feed, or for each response of an origin. Without these values,
most heads are equal, so that feeds share one HeadForm."""


class HeadForm(NamedTuple):
    """The part of a head that many feeds share: a text with `%b` in place of each inserted value.

    `select` is called with the three values that depend on time, followed by the values of OWN_FIELDS. It returns the
    values in the order of the text.
    """

    text: bytes
    select: Callable[[list[bytes]], tuple[Any, ...]]


@lru_cache(maxsize=1024)
def _shared_form(text: bytes, kinds: bytes) -> HeadForm:
    """Return the form with this text. `kinds` contains the kinds of the inserted values, one per byte."""
    own = itertools.count(_OWN)
    return HeadForm(text, itemgetter(*[next(own) if kind == _OWN else kind for kind in kinds]))


class HitCounter:
    """Counter of hits with equal metric labels, and of their bytes, since the last update of the metrics."""

    __slots__ = ("count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0


class LogNames(NamedTuple):
    """The public address and the upstream address of a target in the log.

    To save memory, only the beginning of an address is stored, and the rest is that of the target. The public address
    is `public`, followed by the target without its first `public_replaces` characters. The same holds for `upstream`
    and `upstream_replaces`.
    """

    public: str
    public_replaces: int
    upstream: str
    upstream_replaces: int


_shared_names = lru_cache(maxsize=1024)(LogNames)


class SharedProperties(NamedTuple):
    """The properties that the templates of many feeds share."""

    conditions: HitConditions
    client: ClientContext
    schedule: Schedule | None
    """The channel's schedule, or None if the target is not a feed."""
    method: str
    status: int
    closes: bool
    variant_index: int
    is_keyed: bool
    """True if the key of the requests consists of the request line and a digest, and False if it is the whole request
    head (template_cache.py)."""
    rules: object
    """Rules under which the target may be served (store/permitted_store.py)."""
    hit_counter: HitCounter
    secret_hash: str
    """Hash of the secrets in the target (scoring/reader_names.py). Most targets have none, and an empty hash."""
    head_form: HeadForm
    log_names: LogNames


class ResponseTemplate:
    """A prepared response to requests with equal keys (template_cache.py).

    * `head` and `hit_fields` are valid until the instant `valid_until`. After `release`, `head` is empty.
    * `generation` is the generation (`FastPathHandler.start_iteration`) in which the template was checked.
    * `log_line` is the access-log line for `first_client` (address and User-Agent line).
    * `log_lines` contains the lines for further clients.
    """

    __slots__ = (
        "_own_values",
        "body",
        "first_client",
        "generation",
        "head",
        "hit_fields",
        "hit_state",
        "log_line",
        "log_lines",
        "reader",
        "recorded_at",
        "request_lines",
        "resource_version",
        "shared",
        "target",
        "valid_until",
    )

    def __init__(
        self, target: str, shared: SharedProperties, own_values: bytes, body: bytes, hit_state: HitState
    ) -> None:
        """Make a template. `shared.head_form` and `own_values` are the two values that `prepare_head` returned."""
        self.target = target
        self.shared = shared
        self._own_values = own_values
        self.body = body
        self.hit_state = hit_state
        self.resource_version: object = None
        """Version of the stored resource (store/interface.py), to detect changes."""
        self.request_lines: tuple[bytes, ...] = ()
        """Field lines of the request for which the template was made. Empty if readers are not scored."""
        self.reader: Pseudonym | None = None
        """The reader of the last hit that was recorded in the subscriber counts."""
        self.recorded_at: Instant = 0.0
        """The instant of the hit that `reader` made."""
        self.generation = -1
        self.first_client = NO_CLIENT
        self.log_line = ""
        self.log_lines: dict[tuple[str, bytes], str] | None = None
        self.hit_fields = _NO_HIT_FIELDS
        self.head, self.valid_until = b"", _NEVER

    def update_volatile_fields(self, hit_state: HitState) -> None:
        """Make the head again, with the Age, Cache-Status and Cache-Control of `hit_state`."""
        self.hit_state = hit_state
        self.first_client, self.log_line, self.log_lines = NO_CLIENT, "", None
        self.hit_fields, self.valid_until = hit_state.fields()
        self.head = _make_head(self.shared.head_form, self._own_values, self.hit_fields)

    def release(self) -> None:
        """Drop the head and the log lines. `update_volatile_fields` must be called before the next hit."""
        self.drop_log_lines()
        self.hit_fields = _NO_HIT_FIELDS
        self.head, self.valid_until = b"", _NEVER

    def reusable_hit(self, resource: Resource) -> ReusableHit:
        """Return the hit from which this template was made. `resource` is the stored resource."""
        shared = self.shared
        return ReusableHit(resource, resource.variants[shared.variant_index], *shared.conditions)

    @property
    def public_name(self) -> str:
        """Return the public address of the target in the log."""
        names = self.shared.log_names
        return names.public + self.target[names.public_replaces :]

    @property
    def upstream_name(self) -> str:
        """Return the upstream address of the target in the log, or "" if it equals the public address."""
        names = self.shared.log_names
        return names.upstream + self.target[names.upstream_replaces :]

    def store_log_line(self, client: tuple[str, bytes], log_line: str) -> None:
        """Cache the log line of a client, until `update_volatile_fields` is called."""
        if self.first_client is NO_CLIENT:
            self.first_client, self.log_line = client, log_line
            return
        if self.log_lines is None or len(self.log_lines) >= LOG_LINES_MAX:
            self.log_lines = {}
        self.log_lines[client] = log_line

    def drop_log_lines(self) -> None:
        """Drop the cached log lines of all clients."""
        self.first_client, self.log_line, self.log_lines = NO_CLIENT, "", None

    def size(self) -> int:
        """Return the memory of this template in bytes, without the body."""
        head_length = len(self.shared.head_form.text) + len(self._own_values)
        return TEMPLATE_OVERHEAD + 2 * head_length + sum(map(len, self.request_lines))


def prepare_head(response: Response, hit_state: HitState, *, closes: bool) -> tuple[HeadForm, bytes]:
    """Return the form of a response's head, and the response's own values to insert into the form. Raises ValueError if
    `response` is not the response of a hit in `hit_state`."""
    fields = response.fields.with_added("Connection", "close") if closes else response.fields
    hit_fields, _ = hit_state.fields()
    form, own_values = _split_head(response.status, fields, hit_state.terms, hit_fields)
    head = _make_head(form, own_values, hit_fields)
    if response.reason or head != encode_head(response.status, fields):
        raise ValueError("the response has other time-dependent fields than the template")
    return form, own_values


def _make_head(form: HeadForm, own_values: bytes, hit_fields: HitFields) -> bytes:
    return form.text % form.select((hit_fields.encoded + own_values).split(b"\n"))


def log_names(target: str, public: str, upstream: str) -> LogNames:
    """Return LogNames for a target. `public` and `upstream` are its two names in the log (App.names_in_log)."""
    return _shared_names(*_relative_to(target, public), *_relative_to(target, upstream))


def _relative_to(target: str, name: str) -> tuple[str, int]:
    """Return the part of `name` before the longest ending that it shares with `target`, and the length of the
    corresponding part of `target`."""
    same = len(os.path.commonprefix([target[::-1], name[::-1]]))  # noqa: RUF071 (characters are compared on purpose)
    return name[: len(name) - same], len(target) - same


def _split_head(status: int, fields: Fields, terms: HitTerms, hit_fields: HitFields) -> tuple[HeadForm, bytes]:
    """Return the HeadForm of a head, and the values of OWN_FIELDS, separated by line feeds. Raises ValueError if Age or
    Cache-Status is missing."""
    volatile_values = hit_fields.encoded.split(b"\n")
    text, kinds, own_values = encode_head(status, NO_FIELDS)[:-2], bytearray(), list[bytes]()
    for name, value in fields:
        lowered, encoded = name.lower(), value.encode("latin-1")
        kind = _volatile_kind(lowered, terms)
        if kind is not None and encoded != volatile_values[kind]:
            kind = None
        if kind is None and lowered in OWN_FIELDS:
            kind = _OWN
            own_values.append(encoded)
        text += b"%b: %b\r\n" % (_escape(name.encode("latin-1")), _escape(encoded) if kind is None else b"%b")
        if kind is not None:
            kinds.append(kind)
    if _AGE not in kinds or _CACHE_STATUS not in kinds:
        raise ValueError("invalid response head: expected Age and Cache-Status of this proxy")
    return _shared_form(text + b"\r\n", bytes(kinds)), b"\n".join(own_values)


def _escape(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")


def _volatile_kind(name: str, terms: HitTerms) -> int | None:
    if name == "age":
        return _AGE
    if name == "cache-status":
        return _CACHE_STATUS
    if name == "cache-control" and terms.overrides_cache_control:
        return _CACHE_CONTROL
    if name == "cdn-cache-control" and terms.emits_cdn_cache_control:
        return _CACHE_CONTROL
    return None
