"""The address of a ping sink or purge sink in an option: a URL, perhaps with a prefix."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from feedproxy.errors import BadTarget, UsageError
from feedproxy.http import uri


@dataclass(frozen=True, slots=True)
class SinkAddress[Kind: StrEnum]:
    """The address of a sink: a URL or a template, and the kind of requests that the sink gets."""

    kind: Kind
    url: str


def read_sink_address[Kind: StrEnum](
    text: str,
    *,
    prefixes: Iterable[Kind],
    default_kind: Callable[[str], Kind],
    example_url: Callable[[Kind, str], str],
    expected: str,
) -> SinkAddress[Kind]:
    """Return the sink that `text` names. Raises UsageError, with `expected` in its message, if `text` is invalid.

    `prefixes` are the kinds that may precede the URL, followed by a colon. `default_kind` returns the kind of a URL
    without a prefix. `example_url` returns an example of the URLs of requests to the sink, which must be valid.
    """
    prefix, _, url_after_prefix = text.strip().partition(":")
    kind = next((kind for kind in prefixes if kind == prefix), None)
    url = url_after_prefix if kind is not None else text.strip()
    kind = kind or default_kind(url)
    try:
        uri.normalise(example_url(kind, url))
    except BadTarget as error:
        raise UsageError(f"invalid sink {text!r}: expected {expected}: {error}") from error
    return SinkAddress(kind, url)
