"""Lines of the access log as text, JSON or combined log format."""

import json
import time
from collections.abc import Callable

from msgspec import Struct

from feedproxy.clock import Instant, Seconds
from feedproxy.http.date import format_rfc3339
from feedproxy.http.memoize import memoize_short
from feedproxy.http.target_uri.url_redaction import text_without_secrets, without_secrets
from feedproxy.telemetry.log_format import printable


@memoize_short(entries=1024)
def quote_agent(agent: str) -> str:
    return json.dumps(text_without_secrets(agent))


class AccessLine(Struct, frozen=True):
    """The record of a request in the access log. `reader` is a pseudonym. If `target` is a public address, `upstream`
    is the corresponding address at the upstream, otherwise ""."""

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
    reason: str = ""
    upstream: str = ""

    def as_text(self, show: Callable[[str], str] = without_secrets) -> str:
        """Return the text form of the line. `show` removes secrets from targets, and may be `str` for a target without
        secrets."""
        return access_line_text(
            self.reader,
            self.entrance,
            self.method,
            show(self.target),
            self.status,
            self.size,
            f"{self.seconds * 1000:.1f}ms",
            self.cache,
            quote_agent(self.agent),
            text_without_secrets(self.reason),
        )

    def format(self, form: str, show: Callable[[str], str] = without_secrets) -> str:
        """Return the line in the form `text`, `json` or `combined`. `show` removes secrets from targets."""
        write = {"json": self.as_json, "combined": self.as_combined}.get(form, self.as_text)
        return write(show)

    def as_combined(self, show: Callable[[str], str] = without_secrets) -> str:
        """Return the combined log format of Apache and nginx, with the reader's pseudonym as host. HTTP version and
        referrer are always `HTTP/1.1` and `-`."""
        moment = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(self.at))
        request = f"{self.method} {show(self.target)} HTTP/1.1".replace("\\", "\\\\").replace('"', '\\"')
        agent = text_without_secrets(self.agent).replace("\\", "\\\\").replace('"', '\\"') or "-"
        return printable(f'{self.reader} - - [{moment}] "{request}" {self.status} {self.size} "-" "{agent}"')

    def as_json(self, show: Callable[[str], str] = without_secrets) -> str:
        """Return the line as a JSON object."""
        text = json.dumps(
            {
                "time": format_rfc3339(self.at),
                "reader": self.reader,
                "entrance": self.entrance,
                "method": self.method,
                "target": show(self.target),
                **({"upstream": show(self.upstream)} if self.upstream else {}),
                "status": self.status,
                "bytes": self.size,
                "cache_status": self.cache,
                "seconds": round(self.seconds, 6),
                "user_agent": text_without_secrets(self.agent),
                "reason": text_without_secrets(self.reason),
            },
            ensure_ascii=False,
        )
        return printable(text)


def access_line_text(
    reader: str,
    entrance: str,
    method: str,
    target: str,
    status: int,
    size: int,
    duration: str,
    cache: str,
    agent: str,
    reason: str,
) -> str:
    """Return the text form of an access line. `duration` must contain its unit, `agent` its quotation marks, and
    `target` no secrets."""
    line = f"{reader} {entrance} {method} {target} {status} {size} {duration} [{cache}] {agent} {reason}"
    return printable(line.rstrip())
