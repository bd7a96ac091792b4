"""The change notification service (CNWS, "a proposed specification for a very simple web service", 2003): its XML.

The two sides are in publisher.py (others subscribe here) and subscriber.py (we subscribe with others).
"""

from dataclasses import dataclass
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from feedproxy.clock import Instant
from feedproxy.http.date import format_http_date
from feedproxy.notify.pings.messages import InvalidCall
from feedproxy.notify.soap import parse_document, split_tag
from feedproxy.notify.xmlrpc import remove_unwritable

NAME = "cnws"
NAMESPACE = "http://www.owlfish.com/thoughts/cnws-2003-04-08.html"

TITLE_MAX = 255
""" "The title can be up to 255 characters in length, the description can be of any length." """
DESCRIPTION_MAX = 4000
"""Our own bound: "an excerpt from a post"."""
CHANGES_MAX = 100


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """Who wants to be told of changes of what."""

    resource: str
    url: str


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """What changed. Title and description are optional."""

    resource: str
    title: str = ""
    description: str = ""


def read(content: bytes) -> SubscriptionRequest | tuple[ResourceChange, ...]:
    """A message: a subscription, or changes. Raises BadCall for anything else."""
    root = _notification(content)
    subscribe = _child(root, "subscribe")
    if subscribe is not None:
        resource, url = _text(subscribe, "resourceID"), _text(subscribe, "notificationURL")
        if not resource or not url:
            raise InvalidCall("a subscription names a resourceID and a notificationURL")
        return SubscriptionRequest(resource, url)
    changes = tuple(
        ResourceChange(_text(each, "resourceID"), _text(each, "title"), _text(each, "description"))
        for each in root
        if split_tag(each.tag)[1] == "resourceChange"
    )
    if not changes or len(changes) > CHANGES_MAX or not all(each.resource for each in changes):
        raise InvalidCall("this is neither a subscription nor a change of something")
    return changes


def read_result(content: bytes) -> bool:
    """Whether the other side said true. Raises BadCall where it said neither."""
    result = _child(_notification(content), "result")
    status = _text(result, "status").lower() if result is not None else ""
    if status not in ("true", "false"):
        raise InvalidCall("it said neither true nor false")
    return status == "true"


def write_change(resource: str, at: Instant, title: str = "", description: str = "") -> bytes:
    """That a resource has changed. Title and description are plain text."""
    parts = [("resourceID", resource), ("changeTime", format_http_date(at)), *_optional_parts(title, description)]
    return _document("resourceChange", parts)


def write_subscribe(resource: str, url: str) -> bytes:
    """That we want to be told at this address."""
    return _document("subscribe", [("resourceID", resource), ("notificationURL", url)])


def write_result(status: bool, title: str = "", description: str = "") -> bytes:
    """The answer to either."""
    return _document("result", [("status", str(status).lower()), *_optional_parts(title, description)])


def _notification(content: bytes) -> Element:
    root = parse_document(content)
    space, local = split_tag(root.tag)
    if local != "notification" or space not in ("", NAMESPACE):
        raise InvalidCall("this is no notification of CNWS")
    return root


def _child(element: Element, local: str) -> Element | None:
    return next((each for each in element if split_tag(each.tag) in ((NAMESPACE, local), ("", local))), None)


def _text(element: Element, local: str) -> str:
    found = _child(element, local)
    return "".join(found.itertext()).strip() if found is not None else ""


def _optional_parts(title: str, description: str) -> list[tuple[str, str]]:
    """Those of the two that are there, within their bounds."""
    given = (("title", title[:TITLE_MAX].rstrip()), ("description", description[:DESCRIPTION_MAX].rstrip()))
    return [(name, text) for name, text in given if text]


def _document(kind: str, parts: list[tuple[str, str]]) -> bytes:
    inner = "".join(f"<{name}>{escape(remove_unwritable(text))}</{name}>\n" for name, text in parts)
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<notification version="1.0" xmlns="{NAMESPACE}">\n'
        f"<{kind}>\n{inner}</{kind}>\n</notification>\n"
    ).encode()
