"""The rows of the table: the requests, and the targets of feedproxy against each peer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

READER = {
    "Host": "feeds.example",
    "User-Agent": "ExampleReader/4.2 (+https://reader.example/about; desktop; Linux x86_64)",
    "Accept": "application/rss+xml, application/atom+xml;q=0.9, application/xml;q=0.8, */*;q=0.5",
    "Accept-Language": "en-GB,en;q=0.7",
}
"""Request fields of a reader, as long as those of real readers. A row adds Accept-Encoding and If-None-Match."""


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of request. `targets` are the ratios to reach, by group of peers: the CPU time per request of a peer
    divided by that of feedproxy."""

    key: str
    title: str
    targets: Mapping[str, float] = field(default_factory=dict)
    not_modified: bool = False
    gzip: bool = True
    mode: str = "same"
    count: int = 1
    close: bool = False
    tls: bool = False

    @property
    def miss(self) -> bool:
        """Return whether each request causes a request to the origin."""
        return self.mode == "new"

    def fields(self, tag: str) -> dict[str, str]:
        """Return the request fields of a reader that has the copy with this entity tag."""
        coding = {"Accept-Encoding": "gzip" if self.gzip else "identity"}
        return {**READER, **coding, **({"If-None-Match": tag} if self.not_modified else {})}


def _targets(nginx: float, varnish: float | None = None, squid: float | None = None) -> dict[str, float]:
    named = {"nginx": nginx, "Varnish": varnish, "Squid": squid}
    return {name: value for name, value in named.items() if value is not None}


ROWS = (
    Row("304-keep", "304 keep-alive", _targets(1.3, 2.2, 3.5), not_modified=True),
    Row("12k-keep", "12 KB gzip keep-alive", _targets(1.4, 2.0, 5.0)),
    Row("60k-keep", "60 KB identity keep-alive", _targets(1.1, 1.2, 8.0), gzip=False),
    Row("304-close", "304, one connection per request", _targets(1.05, 2.0, 3.5), not_modified=True, close=True),
    Row("12k-close", "12 KB gzip, one connection per request", _targets(1.2, 1.9, 4.5), close=True),
    Row("many", "10,000 feeds, 12 KB keep-alive", _targets(1.4, 2.0), mode="many", count=10_000),
    Row("unlike", "no two requests alike (304 keep-alive)", _targets(0.9, 1.2, 1.8), not_modified=True, mode="unlike"),
    Row("304-tls", "TLS keep-alive 304", _targets(1.2), not_modified=True, tls=True),
    Row("304-tls-close", "TLS handshake + 304", _targets(0.85), not_modified=True, tls=True, close=True),
    Row("miss", "miss (origin on loopback) keep-alive", _targets(0.09, 0.25, 0.14), mode="new"),
)
