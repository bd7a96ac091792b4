"""The fields of a client's request that reach the origin, and those by which its response is stored."""

import pytest

from feedproxy.http.message import Fields, Request
from feedproxy.request.context import ClientContext, Entrance, UpstreamRequest
from feedproxy.request.upstream_request import (
    ACCEPT,
    ACCEPT_LANGUAGE_MAX,
    VIA_MEMBERS_MAX,
    build_upstream_request,
    is_only_language,
    own_user_agent,
)
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource
from tests.stages.admin import TARGET, a_resource

COOKIE = ("Cookie", "session=1")


def built(
    *lines: tuple[str, str], resource: Resource | None = None, keep_range: bool = False, varying: str = ""
) -> UpstreamRequest:
    return build_upstream_request(
        Request("GET", TARGET, Fields(lines)),
        ClientContext(Entrance.PROXY, "http://proxy.example", "192.0.2.1"),
        resource,
        via="1.1 feedproxy-0",
        own_agent=lambda: "feedproxy",
        keep_range=keep_range,
        unstored_names=frozenset({varying} - {""}),
    )


@pytest.mark.parametrize(
    ("accept", "sent"),
    [("application/rss+xml", ACCEPT), ("*/*", "*/*"), (None, None)],
    ids=["a type of feeds", "any type", "no Accept"],
)
def test_shared_request_has_accept_of_feedproxy(accept: str | None, sent: str | None) -> None:
    upstream = built(*([("Accept", accept)] if accept is not None else []))

    assert upstream.request.fields.combined("accept") == sent
    assert len(upstream.key) == 0


def test_shared_request_for_known_feed_asks_for_feeds() -> None:
    assert built(("Accept", "text/html"), resource=a_resource()).request.fields.combined("accept") == ACCEPT


def test_accept_for_pages_is_client_specific() -> None:
    upstream = built(("Accept", "text/html"))

    assert upstream.request.fields.get_all("accept") == ["text/html"]
    assert list(upstream.key) == [("accept", "text/html")]


def test_field_that_vary_names_is_sent_once_and_is_no_key() -> None:
    upstream = built(("Accept", "text/plain"), varying="accept", resource=a_resource())

    assert upstream.request.fields.get_all("accept") == ["text/plain"]
    assert list(upstream.varying_fields) == [("Accept", "text/plain")]
    assert len(upstream.key) == 0


@pytest.mark.parametrize("value", ["x" * 257, "a\u00e9", "(a)"])
def test_unusual_value_of_field_that_vary_names_is_not_sent_for_shared_copy(value: str) -> None:
    upstream = built(("X-Kind", value), varying="x-kind", resource=a_resource())

    assert "x-kind" not in upstream.request.fields
    assert upstream.withheld_names == {"x-kind"}


def test_long_value_of_field_that_vary_names_is_sent_for_shared_copy() -> None:
    upstream = built(("X-Kind", "x" * 256), varying="x-kind", resource=a_resource())

    assert upstream.request.fields.combined("x-kind") == "x" * 256


@pytest.mark.parametrize(
    ("sent", "forwarded"),
    [
        ("max-age=0, no-cache", "max-age=0, no-cache"),
        ("max-stale", "max-stale"),
        ("no-cache, x=1", "no-cache"),
        ("no-store, secret=1, no-cache", "no-store, no-cache"),
        ("x=1", None),
        ("max-age=12345678901", None),
    ],
)
def test_only_known_cache_control_directives_are_forwarded_for_a_shared_copy(sent: str, forwarded: str | None) -> None:
    upstream = built(("Cache-Control", sent), resource=a_resource())

    assert upstream.request.fields.combined("cache-control") == forwarded


@pytest.mark.parametrize(("sent", "forwarded"), [("No-Cache", "no-cache"), ("x=1", None)])
def test_pragma_is_sent_for_shared_copy_if_it_is_no_cache(sent: str, forwarded: str | None) -> None:
    assert built(("Pragma", sent), resource=a_resource()).request.fields.combined("pragma") == forwarded


def test_unknown_directive_of_client_specific_request_is_part_of_key() -> None:
    upstream = built(("Accept", "text/html"), ("Cache-Control", "x=1"), ("Pragma", "no-cache"))

    assert list(upstream.key) == [("accept", "text/html"), ("cache-control", "x=1")]


@pytest.mark.parametrize(
    "line",
    [
        ("Range", "bytes=0-9"),
        ("Range", "bytes=-9"),
        ("Range", "bytes = 5-"),
        ("Accept-Encoding", "gzip;q=0.5, BR, identity"),
        ("Accept-Encoding", "gzip" + " " * 95),
    ],
)
def test_ordinary_range_and_codings_are_no_key(line: tuple[str, str]) -> None:
    upstream = built(line, keep_range=True)

    assert upstream.request.fields.combined(line[0]) == line[1]
    assert len(upstream.key) == 0


@pytest.mark.parametrize(
    "line",
    [
        ("Range", "bytes=0-9,20-29"),
        ("Range", "lines=0-9"),
        ("If-Range", '"a"'),
        ("Accept-Encoding", "gzip, x-secret"),
        ("Accept-Encoding", "gzip" + " " * 96),
    ],
)
def test_unusual_range_and_codings_are_part_of_key(line: tuple[str, str]) -> None:
    upstream = built(line, keep_range=True)

    assert upstream.request.fields.combined(line[0]) == line[1]
    assert list(upstream.key) == [(line[0].lower(), line[1])]


def test_range_is_not_sent_for_complete_content() -> None:
    fields = built(("Range", "bytes=0-9"), ("If-Range", '"a"'), ("Accept-Encoding", "x-secret")).request.fields

    assert fields.has_any({"range", "if-range"}) is False
    assert fields.combined("accept-encoding") == "gzip, br, zstd"


def test_credential_is_sent_and_is_part_of_key() -> None:
    upstream = built(COOKIE, ("X-Kind", "1"), resource=a_resource())

    assert upstream.request.fields.combined("cookie") == "session=1"
    assert list(upstream.key) == [("cookie", "session=1")]
    assert upstream.has_credentials
    assert upstream.withheld_names == {"x-kind"}


def test_accept_language_counts_alone_up_to_its_limit() -> None:
    longest = "en," * 42 + "en"

    assert len(longest) == ACCEPT_LANGUAGE_MAX
    assert is_only_language(Fields([("accept-language", longest)]))
    assert not is_only_language(Fields([("accept-language", f"{longest}g")]))
    assert not is_only_language(Fields([("accept-language", "en"), ("x-kind", "1")]))


def test_newest_members_of_other_feedproxies_are_sent_in_via() -> None:
    members = [f"1.1 feedproxy-{number:08x}" for number in range(VIA_MEMBERS_MAX + 2)]

    upstream = built(("Via", ", ".join(["1.1 squid", *members])), resource=a_resource())

    assert upstream.request.fields.combined("via") == ", ".join([*members[2:], "1.1 feedproxy-0"])


def test_user_agent_of_feedproxy_names_contact_url_if_set() -> None:
    assert own_user_agent(Settings()).startswith("feedproxy/")
    assert "(" not in own_user_agent(Settings())
    assert own_user_agent(Settings(contact_url="https://example.com/bot")).endswith(" (+https://example.com/bot)")
