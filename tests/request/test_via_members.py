"""The Via members of other feedproxies in a request to the origin."""

from feedproxy.http.message import Fields
from feedproxy.request.upstream_request import VIA_READ_MAX, _via_members
from tests.steps import steps

MEMBER = "1.1 feedproxy-0123abcd"


def test_newest_members_are_read() -> None:
    others = ["1.1 cache"] * (VIA_READ_MAX - 1)

    assert _via_members(Fields([("Via", ", ".join([MEMBER, *others]))])) == MEMBER
    assert _via_members(Fields([("Via", ", ".join([MEMBER, "1.1 cache", *others]))])) == ""


def test_via_with_very_many_members_takes_few_steps() -> None:
    fields = Fields([("Via", "," * 60_000)])

    assert steps(lambda: _via_members(fields)) < 1000
