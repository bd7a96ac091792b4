"""The rules that grade feed readers, their weights, and the type of a verdict."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

from msgspec import Struct, field

from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.notes import Note


class ReaderRule(StrEnum):
    """A rule for feed readers. The weight of a rule expresses how much a violation costs origins and other readers."""

    weight: int
    """The weight is relative: a grade divides it by the sum of the weights of all rules that applied."""
    requirement: str
    """The requirement of the rule, as a clause for reports."""

    def __new__(cls, value: str, weight: int, requirement: str) -> Self:
        """Return the member with this name, weight and requirement."""
        rule = str.__new__(cls, value)
        rule._value_, rule.weight, rule.requirement = value, weight, requirement
        return rule

    CONDITIONS = "conditions", 30, "ETag and Last-Modified are returned unchanged"
    PACE = "pace", 25, "no request before max-age, ttl or sy:* permit it"
    REFUSALS = "refusals", 15, "the reader waits after 429, 503 and failures, and as long as Retry-After says"
    MOVES = "moves", 15, "redirects are followed, and 301, 308 and XML redirects are adopted"
    ENDINGS = "endings", 15, "no more than one request a week after a 410 or an XML redirect without address"
    SKIPPED = "skipped", 10, "no request in skipHours and on skipDays"
    CODING = "coding", 10, "compressed answers are accepted"
    IDENTITY = "identity", 5, "the User-Agent names the reader"
    TAGS = "tags", 5, "If-None-Match is sent if the server has sent an ETag"
    HOUR = "hour", 5, "not all polls come on the hour"
    TEMPORARY = "temporary", 5, "302, 303 and 307 do not change the subscription"
    DELTAS = "deltas", 5, "the ETag of a 226 is sent in the next request"
    CONTACT = "contact", 2, "the User-Agent contains a contact address"
    NEEDLESS = (
        "needless",
        3,
        "no cookies, no Referer, no query parameters of the reader's own, and no HEAD before a GET",
    )
    CONNECTION = "connection", 2, "connections are reused"
    VERSION = "version", 2, "HTTP/1.1 or later"
    SIZE = "size", 5, "the size of a feed is limited"


class Observation(Struct, frozen=True):
    """A kind of Note that applies to a request. `reason` quotes the part of the request that shows it."""

    kind: type[Note]
    reason: str
    values: Mapping[str, Any] = field(default_factory=dict)


def short_target(target: str) -> str:
    """Return a target with its secrets removed, cut to 200 characters, or `…` if the target is invalid."""
    return redact_target(target)[:200]


type Verdict = tuple[Observation, ...]
"""The violations of one rule by one request. An empty tuple means that the rule applied and was kept."""

NO_VIOLATIONS: Verdict = ()


def violation(kind: type[Note], reason: str, values: Mapping[str, Any] | None = None) -> Verdict:
    """Return the verdict with one violation."""
    return (Observation(kind, reason, values or {}),)
