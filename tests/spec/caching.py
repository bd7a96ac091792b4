"""Helpers of the tests of RFC 9111: build responses and requests, and return the decisions on them."""

from typing import Any

from msgspec.structs import replace

from feedproxy.cache import reuse_decision, validation
from feedproxy.cache import vary as variation
from feedproxy.cache.freshness import Freshness, assess
from feedproxy.cache.reuse_decision import Decision
from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.cache.storing import reason_not_to_store
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields, Request, Response

NOW = 1_750_000_000.0
TARGET = "https://example.com/feed"
NO_FIELDS = Fields()


def at(seconds: float) -> str:
    """Return the HTTP-date of the instant `seconds` after NOW."""
    return format_http_date(NOW + seconds)


def fields(**lines: Any) -> Fields:
    """Return fields from keyword arguments: `cache_control="no-store"` becomes `cache-control: no-store`."""
    return Fields((name.replace("_", "-"), value) for name, value in lines.items())


def storing(status: int = 200, *, method: str = "GET", asked: Fields = NO_FIELDS, **lines: Any) -> str | None:
    """Return the result of reason_not_to_store for a response."""
    return reason_not_to_store(Request(method, TARGET, asked), Response(status, fields(**lines)))


def stored(status: int = 200, *, delay: float = 0, coding: str = "identity", **lines: Any) -> StoredResponse:
    """Return a stored response that was received at NOW."""
    known = {name: lines.pop(name) for name in ("vary_request", "authorized", "invalid", "own_agent") if name in lines}
    return StoredResponse(
        TARGET, status, fields(**lines), Content(Bodies({coding: b"0123456789"})), NOW - delay, NOW, **known
    )


def state(response: StoredResponse, after: float = 0) -> Freshness:
    return assess(response, NOW + after)


def deciding(response: StoredResponse | None, after: float = 0, **asked: Any) -> Decision:
    """Return the decision on a request with these fields, `after` seconds after NOW."""
    request = CacheControl.from_request(fields(**asked))
    known = None if response is None else state(response, after)
    return reuse_decision.decide(response, request, known, NOW + after)


def freshen(response: StoredResponse, **lines: Any) -> StoredResponse | None:
    """Return the stored response after a 304 that was received 100 seconds later."""
    return validation.freshen(response, Response(304, fields(**lines)), NOW + 99, NOW + 100, request=NO_FIELDS)


def varying(vary: str, asked: Fields, **lines: Any) -> StoredResponse:
    """Return a stored response with this Vary to a request with these fields."""
    response = stored(vary=vary, **lines)
    return replace(response, vary_request=variation.request_fields_for(response.fields, asked))


def selects(response: StoredResponse, *lines: tuple[str, str]) -> bool:
    return variation.selects(response, Fields(lines), own_agent=False)
