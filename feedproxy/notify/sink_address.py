"""The address of a ping sink or purge sink in an option: a URL, perhaps with a prefix."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from feedproxy.errors import BadTarget, UsageError
from feedproxy.http import uri
from feedproxy.http.target_uri.url_redaction import redact_setting


class SinkAddress[Kind: StrEnum](Struct, frozen=True):
    """The address of a sink: a URL or a template, and the kind of requests that the sink gets."""

    kind: Kind
    url: str


def split_prefix[Kind: StrEnum](text: str, kinds: Iterable[Kind]) -> tuple[Kind | None, str]:
    """Split the text `KIND:URL` of a sink. Return the kind (None if the text names no kind) and the rest of the
    text."""
    prefix, _, url = text.strip().partition(":")
    kind = next((kind for kind in kinds if kind == prefix), None)
    return kind, url if kind is not None else text.strip()


def check_sink_url(text: str, url: str, expected: str) -> None:
    """Raise UsageError if `url`, the URL of the sink `text`, is invalid. The error's message contains `expected`."""
    try:
        uri.normalise(url)
    except BadTarget as error:
        raise UsageError(f"invalid sink {redact_setting(text)!r}: expected {expected}: {error}") from error
