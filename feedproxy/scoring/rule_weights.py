"""The rules that grade feed readers, their weights, and the type of a verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.notes import Note


class ReaderRule(StrEnum):
    """A rule for feed readers. The weight of a rule expresses how much a violation costs origins and other readers."""

    CONDITIONS = "conditions"
    PACE = "pace"
    REFUSALS = "refusals"
    MOVES = "moves"
    ENDINGS = "endings"
    SKIPPED = "skipped"
    CODING = "coding"
    IDENTITY = "identity"
    TAGS = "tags"
    HOUR = "hour"
    TEMPORARY = "temporary"
    DELTAS = "deltas"
    CONTACT = "contact"
    NEEDLESS = "needless"
    CONNECTION = "connection"
    VERSION = "version"
    SIZE = "size"

    @property
    def weight(self) -> int:
        """Return the rule's weight. It is relative: a grade divides it by the sum of the weights of all rules that
        applied."""
        return WEIGHTS[self]

    @property
    def requirement(self) -> str:
        """Return the requirement of the rule, as a clause for reports."""
        return REQUIREMENTS[self]


WEIGHTS: Mapping[str, int] = {
    "conditions": 30,
    "pace": 25,
    "refusals": 15,
    "moves": 15,
    "endings": 15,
    "skipped": 10,
    "coding": 10,
    "identity": 5,
    "tags": 5,
    "hour": 5,
    "temporary": 5,
    "deltas": 5,
    "contact": 2,
    "needless": 3,
    "connection": 2,
    "version": 2,
    "size": 5,
}

REQUIREMENTS: Mapping[str, str] = {
    "conditions": "ETag and Last-Modified are returned unchanged",
    "pace": "no request before max-age, ttl or sy:* permit it",
    "refusals": "the reader waits after 429, 503 and failures, and as long as Retry-After says",
    "moves": "redirects are followed, and 301, 308 and XML redirects are adopted",
    "endings": "no more than one request a week after a 410 or an XML redirect without address",
    "skipped": "no request in skipHours and on skipDays",
    "coding": "compressed answers are accepted",
    "identity": "the User-Agent names the reader",
    "tags": "If-None-Match is sent if the server has sent an ETag",
    "hour": "not all polls come on the hour",
    "temporary": "302, 303 and 307 do not change the subscription",
    "deltas": "the ETag of a 226 is sent in the next request",
    "contact": "the User-Agent contains a contact address",
    "needless": "no cookies, no Referer, no query parameters of the reader's own, and no HEAD before a GET",
    "connection": "connections are reused",
    "version": "HTTP/1.1 or later",
    "size": "the size of a feed is limited",
}


@dataclass(frozen=True, slots=True)
class Observation:
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
