"""The client address in Forwarded and X-Forwarded-For, in every permitted spelling."""

import pytest

from feedproxy.http.message import Fields
from feedproxy.request.forwarded_client_address import FORWARDED, HOPS_MAX, X_FORWARDED_FOR, Hop, canonical, client_hop

PEER, INNER = "127.0.0.1", "192.0.2.1"
CLIENT, FORGED = "198.51.100.7", "203.0.113.66"


def trusts(address: str) -> bool:
    return address in (PEER, INNER, "::1")


def said(named: str, *lines: str, **more: str) -> Hop:
    name = "Forwarded" if named == FORWARDED else "X-Forwarded-For"
    fields = [(name, line) for line in lines] + [(key.replace("_", "-"), value) for key, value in more.items()]
    return client_hop(Fields(fields), named, PEER, trusts)


@pytest.mark.parametrize(
    ("lines", "address"),
    [
        ([CLIENT], CLIENT),
        ([f"{FORGED}, {CLIENT}"], CLIENT),
        ([FORGED, CLIENT], CLIENT),  # field lines are one list (RFC 9110, 5.3)
        ([f"{FORGED}, {CLIENT}", ""], CLIENT),
        ([f"{CLIENT}:4711"], CLIENT),
        (["2001:DB8::0:1"], "2001:db8::1"),
        (["[2001:db8::1]"], "2001:db8::1"),
        (["[2001:db8::1]:4711"], "2001:db8::1"),
        (["fe80::1%eth0"], "fe80::1"),
        ([f"::ffff:{CLIENT}"], CLIENT),
        ([f'"{CLIENT}"'], CLIENT),
        ([f"{CLIENT}, {INNER}"], CLIENT),
        ([f"{FORGED}, {CLIENT}, {INNER}"], CLIENT),
        ([f"{FORGED}, {INNER}, {CLIENT}"], CLIENT),
        ([f"{FORGED}, unknown"], PEER),
        ([f"{FORGED}, unknown, {INNER}"], INNER),
        ([f"{FORGED}, unix:"], PEER),
        ([f"{FORGED}, 1.2.3.4.5"], PEER),
        ([f"{FORGED}, {PEER}"], PEER),  # a client on the proxy's machine
        ([f"{FORGED}, ::1"], "::1"),
        ([f"{FORGED}, ::ffff:127.0.0.1"], PEER),
        ([f"{FORGED}, {INNER}, {INNER}"], INNER),
        ([""], PEER),
        ([], PEER),
    ],
)
def test_x_forwarded_for_names_the_client_in_its_last_untrusted_entry(lines: list[str], address: str) -> None:
    assert said(X_FORWARDED_FOR, *lines, forwarded=f"for={FORGED}").address == address


@pytest.mark.parametrize(
    ("lines", "address"),
    [
        ([f"for={CLIENT}"], CLIENT),
        ([f"For={CLIENT};proto=http;by=10.0.0.1"], CLIENT),
        ([f"for={FORGED}, for={CLIENT}"], CLIENT),
        ([f"for={FORGED}", f"for={CLIENT}"], CLIENT),
        ([f'for="{CLIENT}:4711"'], CLIENT),
        ([f"for={CLIENT}:_port"], CLIENT),
        (['for="[2001:db8::1]:4711"'], "2001:db8::1"),
        (['for="[2001:db8::1]"'], "2001:db8::1"),
        (["for=2001:db8::1"], "2001:db8::1"),
        (['for="\\1.2.3.4"'], "1.2.3.4"),
        ([f"for={CLIENT}, for={INNER}"], CLIENT),
        ([f"for={FORGED}, for=unknown"], PEER),
        ([f"for={FORGED}, for=_hidden"], PEER),
        ([f'for={FORGED}, for="_SEVKISEK"'], PEER),
        ([f"for={FORGED}, proto=https"], PEER),
        ([f"for={FORGED}, for={PEER}"], PEER),
        ([f"for={FORGED}, for {CLIENT}"], PEER),
        ([f"for={CLIENT};for={FORGED}"], CLIENT),  # each parameter once (RFC 7239, section 4): the first counts
        # What a client leaves open or writes badly takes no entry of the proxy with it.
        ([f'for="{FORGED}, for={CLIENT}'], CLIENT),
        ([f'for="{FORGED}', f"for={CLIENT};proto=https"], CLIENT),
        ([f"=;;=,,{FORGED}, for={CLIENT}"], CLIENT),
        # No part of a quoted string is an entry.
        ([f'for={CLIENT};host="x, for={FORGED}"'], CLIENT),
        ([f'for={CLIENT};host="x, for=\\"{FORGED}"'], CLIENT),
        ([], PEER),
    ],
)
def test_forwarded_names_the_client_in_its_last_untrusted_entry(lines: list[str], address: str) -> None:
    assert said(FORWARDED, *lines, x_forwarded_for=FORGED).address == address


def test_scheme_and_host_are_those_of_the_nearest_proxys_entry() -> None:
    hop = said(FORWARDED, f"for={FORGED};proto=https;host=evil.example, for={CLIENT};proto=http;Host=feeds.example")
    assert hop == Hop(CLIENT, "http", "feeds.example")

    assert said(FORWARDED, f"for={FORGED};proto=https;host=evil.example, for={CLIENT}") == Hop(CLIENT)
    assert said(FORWARDED, f"for={CLIENT};proto=gopher") == Hop(CLIENT)
    assert said(FORWARDED, f"for={CLIENT}", x_forwarded_proto="https") == Hop(CLIENT)


def test_x_forwarded_host_and_port_are_never_read_and_the_last_scheme_counts() -> None:
    more = {"x_forwarded_host": "evil.example", "x_forwarded_port": "81", "x_forwarded_proto": "http, HTTPS"}
    assert said(X_FORWARDED_FOR, CLIENT, **more) == Hop(CLIENT, "https")
    assert said(X_FORWARDED_FOR, CLIENT, x_forwarded_proto="https, gopher") == Hop(CLIENT)


def test_underscore_spellings_are_other_fields() -> None:
    fields = Fields([("X_Forwarded_For", FORGED), ("X-Forwarded-For", CLIENT), ("x_forwarded_proto", "https")])

    assert client_hop(fields, X_FORWARDED_FOR, PEER, trusts) == Hop(CLIENT)


def test_x_forwarded_for_is_read_up_to_hops_max_entries() -> None:
    everyone = [f"10.0.0.{number}" for number in range(HOPS_MAX + 4)]
    fields = Fields([("X-Forwarded-For", ", ".join(everyone))])

    assert client_hop(fields, X_FORWARDED_FOR, PEER, lambda _: True).address == everyone[4]


@pytest.mark.parametrize("piece", [",", "a,", 'for="', 'for="x",', "for=1.2.3.4,", '\\",', "=;", '"'])
def test_long_values_take_no_long_time(piece: str) -> None:
    """The parser searches only ENTRY_MAX bytes for an entry."""
    value = piece * (65_536 // len(piece)) + f",for={CLIENT}"

    assert said(FORWARDED, value).address == CLIENT
    assert said(X_FORWARDED_FOR, value.replace("for=", "")).address == CLIENT


def test_canonical_client_address_has_one_spelling() -> None:
    assert {canonical(each) for each in ("::1", "0:0:0:0:0:0:0:1", "::1%lo")} == {"::1"}
    assert canonical("::ffff:192.0.2.1") == "192.0.2.1"
    assert canonical("localhost") == canonical("") == ""
