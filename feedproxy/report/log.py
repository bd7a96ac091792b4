"""The line logged for each request: what was asked, what became of it (RFC 9211's words), and why.

Secrets never get here: userinfo is left out, and what looks like a token in a query is shown as `…`.
"""

import json
import re
import time
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from feedproxy.clock import Instant, Seconds

SECRET = re.compile(
    r"(?i)((?:^|[&;])(?:[^=&;]*(?:token|secret|password|passwd|pwd|auth|signature|sig|session|api_?key|access_?key|key)"
    r"[^=&;]*)=)[^&;]*"
)
LONG_SECRET = re.compile(
    # A UUID, or a run of letters and digits too long to be a word: addresses of private feeds are made of these.
    r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
    r"|(?<![0-9A-Za-z])(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[0-9A-Za-z]{24,}"
)


USERINFO = re.compile(r"(?i)(https?(?::|%3a)(?:/|%2f){1,2})[^/?#&\s]*(?:@|%40)")
"""A name and password in an address within an address: a gateway's request that is refused is logged, too."""


@dataclass(frozen=True, slots=True)
class Line:
    """One request, as it is logged. `reader` is a pseudonym; `upstream` the target where readers know another."""

    at: Instant
    reader: str
    entrance: str
    method: str
    target: str
    status: int
    size: int
    cache: str
    seconds: Seconds
    agent: str
    words: str = ""
    upstream: str = ""

    def as_text(self) -> str:
        """For people and for grep."""
        return (
            f"{self.reader} {self.entrance} {self.method} {without_secrets(self.target)} {self.status} {self.size} "
            f"{self.seconds * 1000:.1f}ms [{self.cache}] {json.dumps(self.agent)} {self.words}"
        ).rstrip()

    def as_json(self) -> str:
        """For programs: one object a line."""
        return json.dumps(
            {
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.at)),
                "reader": self.reader,
                "entrance": self.entrance,
                "method": self.method,
                "target": without_secrets(self.target),
                **({"upstream": without_secrets(self.upstream)} if self.upstream else {}),
                "status": self.status,
                "bytes": self.size,
                "cache_status": self.cache,
                "seconds": round(self.seconds, 6),
                "user_agent": self.agent,
                "reason": self.words,
            },
            ensure_ascii=False,
        )


def without_secrets(target: str) -> str:
    """A target URI that may be shown: no userinfo, no values of parameters that sound secret, no long tokens."""
    split = urlsplit(target)
    host = split.netloc.rpartition("@")[2]
    query = SECRET.sub(r"\1…", split.query)
    shown = USERINFO.sub(r"\1", urlunsplit((split.scheme, host, split.path, query, "")))
    return LONG_SECRET.sub("…", shown)
