"""The response fields that an origin sends are rewritten for the client's entrance in linear time."""

from collections.abc import Callable

from feedproxy.http.field_values import PARSED_MAX
from feedproxy.http.message import Fields
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.request.response_fields_by_entrance import apply_entrance_rules
from tests.growth import TIMES, grows_no_faster

GATEWAY = ClientContext(Entrance.GATEWAY, "http://proxy.example", "192.0.2.1")
LINES = 20


def _rewriting(length: int) -> Callable[[], object]:
    fields = Fields([("Link", '\\"' * (length // 2))] * LINES)
    return lambda: apply_entrance_rules(fields, GATEWAY, target="http://origin.example/feed", upstream="")


def test_time_for_a_link_of_unclosed_quotes_grows_with_its_length() -> None:
    assert grows_no_faster(_rewriting, PARSED_MAX // TIMES) == ""
