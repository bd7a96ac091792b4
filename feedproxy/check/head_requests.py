"""Checks of HEAD: the server supports it, and its response has the fields of the response to GET."""

from collections.abc import Iterator

from feedproxy.check.observations import FeedObservations
from feedproxy.notes import Category, Level, Note

_HEAD_FIELDS = ("content-type", "etag", "last-modified", "cache-control")


def check(observations: FeedObservations) -> Iterator[Note]:
    """Yield the Notes on the response to HEAD, if the feed itself was received."""
    if observations.last.status != 200 or observations.last.error:
        return
    head = observations.head
    if head is None:
        return
    if head.status in (405, 501):
        yield HEAD_REFUSED(status=head.status)
        return
    if head.status != 200:
        yield HEAD_DIFFERS(detail=f"its status ({head.status or head.error})")
        return
    # A field that differs between two GET responses says nothing about the method.
    stable = [
        name
        for name in _HEAD_FIELDS
        if observations.repeat is None or observations.repeat.fields.get(name) == observations.last.fields.get(name)
    ]
    differing = [name for name in stable if head.fields.get(name) != observations.last.fields.get(name)]
    if differing:
        yield HEAD_DIFFERS(detail=", ".join(differing))


class HEAD_REFUSED(Note, level=Level.INFO, category=Category.CONNECTION):
    summary = "HEAD is refused (%(status)s)."
    advice = """\
    Link checkers and some readers send HEAD first. GET and HEAD are the two methods that every server must support."""
    reference = "RFC 9110, sections 9.1 and 9.3.2"


class HEAD_DIFFERS(Note, level=Level.WARN, category=Category.CONNECTION):
    summary = "The responses to HEAD and GET differ: %(detail)s."
    advice = """\
    Clients that send HEAD before GET are misled. The response to HEAD should have the fields of the response to GET."""
    reference = "RFC 9110, section 9.3.2"
