"""The examples in CONTRIBUTING.md work unchanged."""

import re
from pathlib import Path
from typing import Any

import msgspec.structs

from feedproxy.feed.convert.read.from_document import read
from feedproxy.http.message import Fields, Response
from feedproxy.notify.notification_protocol import Change, Delivered, Delivery, Refused, Retry, SinkSender
from feedproxy.settings import option
from feedproxy.upstream.upstream_errors import Unreachable

PAGE = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
FEED = b'<rss version="2.0"><channel><title>F</title><item><title>One</title></item><item/></channel></rss>'


def example(name: str, **known: Any) -> dict[str, Any]:
    """Return the names that an example defines."""
    (code,) = re.findall(rf"^```python\n# {name}\n(.*?)^```", PAGE, re.M | re.S)
    defined = dict(known)
    exec(compile(code, f"CONTRIBUTING.md: {name}", "exec", dont_inherit=True), defined)
    return defined


def test_example_of_a_format_renders_a_feed() -> None:
    feed = read(FEED)
    assert feed is not None

    made = example("format")["TITLES"]

    assert made.render(feed) == b"One\n"
    assert (made.name, made.media_type) == ("titles", "text/plain; charset=utf-8")


async def test_example_of_a_protocol_sends_a_change_and_interprets_the_answer() -> None:
    protocol: SinkSender = example("protocol")["Webhook"]("https://example.com/hook")
    change = Change(7, "https://example.com/feed.xml", "Feed", "https://example.com/", 1_795_000_000)

    (request,) = protocol.extra_deliveries(change)
    delivery = Delivery(1, request, "example.com", 0, change.at)
    message = await protocol.message(delivery, None)

    assert message is not None
    assert (message.method, message.url, message.body) == ("POST", "https://example.com/hook", change.target.encode())
    assert not list(protocol.extra_deliveries(msgspec.structs.replace(change, listed=False)))
    for answer, expected in ((204, Delivered), (410, Refused), (500, Retry)):
        assert isinstance(await protocol.interpret(delivery, None, Response(answer, Fields(), b"")), expected)
    assert isinstance(await protocol.interpret(delivery, None, Unreachable("no route")), Retry)


def test_example_of_an_option_is_a_field_with_text_and_unit() -> None:
    described = example("option", option=option)["quiet_time"]

    assert described.default == 0
    assert described.metadata["per_feed"]
    assert described.metadata["unit"] == "s"
    assert described.metadata["text"].endswith(".")


def test_example_of_a_finding_fills_in_its_values() -> None:
    finding = example("finding")["finding"]

    assert finding.id() == "title-empty"
    assert finding.message == "The titles of 3 items are empty."
