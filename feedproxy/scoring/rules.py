"""The rules that feed readers are graded by, their weights, and the form of a verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from feedproxy.findings import Note
from feedproxy.http.redaction import without_secrets


class Rule(StrEnum):
    """A rule for feed readers. Its weight says what breaking it costs origins and other readers."""

    CONDITIONS = "conditions"
    PACE = "pace"
    REFUSALS = "refusals"
    MOVES = "moves"
    ENDINGS = "endings"
    SKIPPED = "skipped"
    CODING = "coding"
    IDENTITY = "identity"
    HOUR = "hour"
    TEMPORARY = "temporary"
    DELTAS = "deltas"
    CONTACT = "contact"
    NEEDLESS = "needless"
    CONNECTION = "connection"
    VERSION = "version"

    @property
    def weight(self) -> int:
        """The rule's share in the grade, before rules that did not apply are left out."""
        return WEIGHTS[self]

    @property
    def requirement(self) -> str:
        """The requirement, as a clause."""
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
    "hour": 5,
    "temporary": 5,
    "deltas": 5,
    "contact": 2,
    "needless": 3,
    "connection": 2,
    "version": 2,
}

REQUIREMENTS: Mapping[str, str] = {
    "conditions": "ETag and Last-Modified are returned exactly as they came",
    "pace": "no request before max-age, ttl or sy allow it",
    "refusals": "429, 503 and Retry-After are kept to, and failures not hammered",
    "moves": "redirects are followed, and 301, 308 and XML redirects adopted",
    "endings": "410 and XML gone are obeyed",
    "skipped": "no request in skipHours and on skipDays",
    "coding": "compression is asked for",
    "identity": "the User-Agent names the reader",
    "hour": "polls are not all made on the hour",
    "temporary": "302, 303 and 307 change no subscription",
    "deltas": "the tag of a 226 is what the next request has",
    "contact": "the User-Agent tells where to reach somebody",
    "needless": "no cookies, referrers and query strings of the reader's own",
    "connection": "connections are used again",
    "version": "HTTP/1.1 or later",
}


@dataclass(frozen=True, slots=True)
class Observation:
    """A kind of Note that applies to a request; `reason` quotes what in the request shows it."""

    kind: type[Note]
    reason: str
    values: Mapping[str, Any] = field(default_factory=dict)


def redact_target(target: str) -> str:
    """Return a target without its secrets, cut to 200 characters."""
    try:
        return without_secrets(target)[:200]
    except ValueError:
        return "…"


type Verdict = tuple[Observation, ...]
"""The violations of a rule by a request. Empty if the rule applied and was kept."""

NO_VIOLATIONS: Verdict = ()
