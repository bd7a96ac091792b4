"""WebSub requests to hubs, as forms: subscriptions and publish requests (W3C Recommendation, 23 January 2018)."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct

from feedproxy.errors import BadTarget, FeedproxyError
from feedproxy.http import uri
from feedproxy.http.field_values import parse_parameters

NAME = "websub"

FORM = "application/x-www-form-urlencoded"

SECRET_MAX = 200
"""A hub.secret must have fewer than this many bytes (WebSub, section 5.1)."""

ADDRESS_MAX = 2048
"""Maximum number of characters in a callback URL."""
PARAMETERS_MAX = 100
"""Maximum number of parameters in one request."""
TOPICS_MAX = 50
"""Maximum number of topics in one publish request."""

_PERCENT = re.compile(r"%(2D|2E|5F|7E|3[0-9]|[46][1-9A-F]|[57][0-9A])", re.IGNORECASE)
"""Pattern of a percent-encoded character that need not be encoded (RFC 3986, section 2.3)."""


class Mode(StrEnum):
    """The values of `hub.mode`."""

    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"
    PUBLISH = "publish"
    DENIED = "denied"


class InvalidRequest(FeedproxyError, detail="websub"):
    """Error for an invalid request to a hub."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status_hint = status


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """A request to subscribe or to unsubscribe. `topic` and `callback` are as received."""

    mode: Mode
    topic: str
    callback: str
    lease: int | None = None
    secret: str = field(default="", repr=False)


class PublishRequest(Struct, frozen=True):
    """A publisher's report that these topics have changed."""

    topics: tuple[str, ...]


def read_request(media_type: str | None, body: bytes) -> SubscriptionRequest | PublishRequest:
    """Return the request that a form contains. Raises InvalidRequest if the media type is not that of a form, or if a
    parameter is missing or invalid.

    "Hubs MUST ignore additional request parameters they do not understand."
    """
    if parse_parameters(media_type or "")[0] != FORM:
        raise InvalidRequest(f"invalid Content-Type: expected {FORM}", 415)
    parameters = _form(body)
    mode = _single_value(parameters, "hub.mode", required=True)
    if mode == Mode.PUBLISH:
        topics = [*parameters.get("hub.url", ()), *parameters.get("hub.topic", ())]
        if not topics or len(topics) > TOPICS_MAX:
            raise InvalidRequest(f"invalid hub.url: expected 1 to {TOPICS_MAX} changed topics")
        return PublishRequest(tuple(dict.fromkeys(topics)))
    if mode not in (Mode.SUBSCRIBE, Mode.UNSUBSCRIBE):
        raise InvalidRequest(f"invalid hub.mode {mode[:40]!r}: expected subscribe, unsubscribe or publish")
    secret = _single_value(parameters, "hub.secret")
    if len(secret.encode()) >= SECRET_MAX:
        raise InvalidRequest(f"invalid hub.secret: expected less than {SECRET_MAX} bytes")
    return SubscriptionRequest(
        Mode(mode),
        _single_value(parameters, "hub.topic", required=True),
        read_callback(_single_value(parameters, "hub.callback", required=True)),
        # "MUST be ignored by the hub in that case."
        _parse_lease(_single_value(parameters, "hub.lease_seconds")) if mode == Mode.SUBSCRIBE else None,
        secret,
    )


def read_callback(text: str) -> str:
    """Return the callback, with percent-encoded unreserved characters decoded. Raises InvalidRequest if the URL is
    invalid.

    "Hubs MUST always decode non-reserved characters for these URL parameters". All other characters stay: "the Hub MUST
    use the exact callback used by the subscriber".
    """
    if len(text) > ADDRESS_MAX:
        raise InvalidRequest(f"hub.callback is longer than {ADDRESS_MAX} characters")
    if "#" in text:
        raise InvalidRequest("invalid hub.callback: a fragment is never sent")
    try:
        uri.normalise(text)
    except BadTarget as error:
        raise InvalidRequest(f"invalid hub.callback: {error}") from error
    if not text.isascii():
        raise InvalidRequest("invalid hub.callback: expected ASCII, with other characters percent-encoded")
    return _PERCENT.sub(lambda match: chr(int(match[1], 16)), text)


def with_parameters(callback: str, **parameters: str | int) -> str:
    """Return the callback with hub.* parameters appended.

    "Hubs MUST preserve the query string during subscription verification by appending new parameters to the end of the
    list using the & (ampersand) character to join."
    """
    query = urlencode({f"hub.{name}": value for name, value in parameters.items()})
    join = "?" if "?" not in callback else "" if callback.endswith(("?", "&")) else "&"
    return f"{callback}{join}{query}"


def link_field(hub: str, topic: str) -> str:
    """Return the value of the Link field of a content distribution: "a single Link Header"."""
    return f'<{hub}>; rel="hub", <{topic}>; rel="self"'


def write_form(**parameters: str | int) -> bytes:
    return urlencode({f"hub.{name}": value for name, value in parameters.items()}).encode()


def _form(body: bytes) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=PARAMETERS_MAX, errors="strict")
    except (ValueError, UnicodeError) as error:
        raise InvalidRequest("invalid body: expected a form in UTF-8") from error
    parameters: dict[str, list[str]] = {}
    for name, value in pairs:
        parameters.setdefault(name, []).append(value)
    return parameters


def _single_value(parameters: dict[str, list[str]], name: str, *, required: bool = False) -> str:
    values = parameters.get(name, [])
    if len(values) > 1:
        raise InvalidRequest(f"invalid {name}: expected one value")
    if required and not (values and values[0]):
        raise InvalidRequest(f"{name} is missing")
    return values[0] if values else ""


def _parse_lease(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text[:12]) > 0):
        raise InvalidRequest(f"invalid hub.lease_seconds {text[:40]!r}: expected a positive decimal integer")
    return int(text[:12])
