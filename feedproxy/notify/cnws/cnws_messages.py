"""Messages of the change notification service (CNWS, "a proposed specification for a very simple web service",
2003)."""

from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from msgspec import Struct

from feedproxy.clock import Instant
from feedproxy.feed.xml_well_formedness import valid_text
from feedproxy.http.date import format_http_date
from feedproxy.notify.pings.ping_messages import InvalidCall
from feedproxy.notify.rpc.soap import parse_document, split_tag

NAME = "cnws"
NAMESPACE = "http://www.owlfish.com/thoughts/cnws-2003-04-08.html"

TITLE_MAX = 255
"""Maximum number of characters in a title: "The title can be up to 255 characters in length"."""
DESCRIPTION_MAX = 4000
"""A description that feedproxy sends has at most this many characters: "an excerpt from a post"."""
CHANGES_MAX = 100
"""Maximum number of changes in a notification that feedproxy receives."""


class SubscriptionRequest(Struct, frozen=True):
    """A request to notify the server at `url` of changes of a resource."""

    resource: str
    url: str


def read(content: bytes) -> SubscriptionRequest | list[str]:
    """Return the subscription request in a message, or the resources that the message reports as changed. Raises
    InvalidCall if the message is invalid."""
    root = _notification(content)
    subscribe = _child(root, "subscribe")
    if subscribe is not None:
        resource, url = _text(subscribe, "resourceID"), _text(subscribe, "notificationURL")
        if not resource or not url:
            raise InvalidCall("invalid subscription: expected a resourceID and a notificationURL")
        return SubscriptionRequest(resource, url)
    changes = [_text(change, "resourceID") for change in root if split_tag(change.tag)[1] == "resourceChange"]
    if not changes or len(changes) > CHANGES_MAX or not all(changes):
        raise InvalidCall(f"invalid message: expected a subscription, or 1 to {CHANGES_MAX} changes")
    return changes


def read_result(content: bytes) -> bool:
    """Return the status, true or false, that a result message states. Raises InvalidCall if the message is invalid."""
    result = _child(_notification(content), "result")
    status = _text(result, "status").lower() if result is not None else ""
    if status not in ("true", "false"):
        raise InvalidCall("invalid result: expected the status true or false")
    return status == "true"


def write_change(resource: str, at: Instant, title: str, description: str) -> bytes:
    """Return the notification of a change. Title and description are plain text."""
    parts = [("resourceID", resource), ("changeTime", format_http_date(at)), *_optional_parts(title, description)]
    return _document("resourceChange", parts)


def write_subscribe(resource: str, url: str) -> bytes:
    """Return the request to send notifications of a resource's changes to `url`."""
    return _document("subscribe", [("resourceID", resource), ("notificationURL", url)])


def write_result(status: bool, title: str = "", description: str = "") -> bytes:
    return _document("result", [("status", str(status).lower()), *_optional_parts(title, description)])


def _notification(content: bytes) -> Element:
    root = parse_document(content)
    space, local = split_tag(root.tag)
    if local != "notification" or space not in ("", NAMESPACE):
        raise InvalidCall("invalid message: expected a notification element of CNWS")
    return root


def _child(element: Element, local: str) -> Element | None:
    return next((child for child in element if split_tag(child.tag) in ((NAMESPACE, local), ("", local))), None)


def _text(element: Element, local: str) -> str:
    child = _child(element, local)
    return "".join(child.itertext()).strip() if child is not None else ""


def _optional_parts(title: str, description: str) -> list[tuple[str, str]]:
    texts = (("title", title[:TITLE_MAX].rstrip()), ("description", description[:DESCRIPTION_MAX].rstrip()))
    return [(name, text) for name, text in texts if text]


def _document(kind: str, parts: list[tuple[str, str]]) -> bytes:
    inner = "".join(f"<{name}>{escape(valid_text(text))}</{name}>\n" for name, text in parts)
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<notification version="1.0" xmlns="{NAMESPACE}">\n'
        f"<{kind}>\n{inner}</{kind}>\n</notification>\n"
    ).encode()
