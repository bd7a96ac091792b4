"""What readers are judged by, what each rule weighs, and how a verdict is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from feedproxy.findings import Note
from feedproxy.http.redaction import without_secrets


class Rule(StrEnum):
    """A promise that a good reader keeps. Its weight says what breaking it costs others."""

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
        """Its share in the grade, before what a recording gave no chance for is left out."""
        return WEIGHTS[self]

    @property
    def words(self) -> str:
        """What is asked for."""
        return WORDS[self]


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

WORDS: Mapping[str, str] = {
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
    """A Note that a request gives rise to; `words` say what shows it in this request."""

    kind: type[Note]
    words: str
    values: Mapping[str, Any] = field(default_factory=dict)


def redact_target(target: str) -> str:
    """An address as it may be told: without what is secret in it, and not without end."""
    try:
        return without_secrets(target)[:200]
    except ValueError:
        return "…"


type Verdict = tuple[Observation, ...]
"""What a request does wrong by a rule. Empty: the rule had a say, and was kept."""

KEPT: Verdict = ()
