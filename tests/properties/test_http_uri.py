"""Properties of every target URI."""

import contextlib
import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from feedproxy.errors import BadTarget
from feedproxy.http.target_uri.gateway_path import gateway_path, gateway_target
from feedproxy.http.uri import normalise, origin_of, resolve, split_host_port

pieces = st.lists(
    st.sampled_from([*"/.?#%[]@:a1é日\\|~", "..", "/../", "%2e", "%2F", "%4", "%25", "%C3%A9", "Ã©", "%%34%31"])
    | st.text(max_size=3),
    max_size=12,
).map("".join)
hosts = st.sampled_from(["example.com", "EXAMPLE.com.", "bücher.example", "127.0.0.1", "[::1]", "a_b.example:81"])
uris = st.builds(
    lambda scheme, host, rest: f"{scheme}://{host}{rest}", st.sampled_from(["http", "HTTPS"]), hosts, pieces
)


def normalised(uri: str) -> str:
    try:
        return normalise(uri)
    except BadTarget:
        assume(False)
        raise


@given(uris)
@example("http://example.com/%%34%31")
@example("http://example.com/%252e%252e/")
def test_normalising_twice_equals_normalising_once(uri: str) -> None:
    once = normalised(uri)

    assert normalise(once) == once


@given(uris)
@example("http://example.com:80/")
@example("https://example.com:080/")
@example("http://example.com/a/./b")
def test_uri_that_the_quick_check_accepts_is_normal(uri: str) -> None:
    unhurried = vars(normalise)["__wrapped__"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("feedproxy.http.uri._NORMAL", re.compile("(?!)"))
        try:
            normal = unhurried(uri)
        except BadTarget:
            normal = None
    if normal is None:
        with pytest.raises(BadTarget):
            unhurried(uri)
    else:
        assert unhurried(uri) == unhurried(normal) == normal


@given(uris)
def test_normal_form_is_ascii_without_dot_segments_fragment_or_incomplete_escapes(uri: str) -> None:
    once = normalised(uri)

    assert re.fullmatch(r"https?://[a-z0-9.:\[\]_-]+/[!-~]*", once)
    assert not {".", ".."} & set(once.partition("?")[0].split("/")[3:])
    assert "#" not in once
    assert not re.search(r"%(?![0-9A-F]{2})", once)


@given(uris)
def test_gateway_address_converts_to_the_target_and_back(uri: str) -> None:
    target = normalised(uri)
    path = gateway_path(target)

    assert gateway_target(path) == target
    assert gateway_target(path.replace("://", ":/", 1)) == target


@given(uris, pieces)
def test_resolved_reference_is_normal_and_has_the_origin_of_the_reference_or_base(uri: str, reference: str) -> None:
    base = normalised(uri)
    try:
        target = resolve(base, reference)
    except BadTarget:
        assume(False)
        raise

    assert normalise(target) == target
    if "//" not in reference and ":" not in reference:
        assert origin_of(target) == origin_of(base)
        assert split_host_port(target) == split_host_port(base)


@given(st.text())
def test_any_text_is_a_target_or_refused(text: str) -> None:
    for uri in (text, f"http://{text}", f"http://example.com/{text}"):
        with contextlib.suppress(BadTarget):
            assert normalise(uri).isascii()
