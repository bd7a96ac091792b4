"""Response templates: heads that are made from shared parts and the values of one feed."""

import pytest

from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.feed.channel import Channel, Kind
from feedproxy.http.cache_control import CacheControl
from feedproxy.http.message import Fields, Response
from feedproxy.proxy.repeated_hit import HitState, ReusableHit, recompute_hit
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.server.fastpath.response_template import (
    HeadForm,
    HitCounter,
    ResponseTemplate,
    SharedProperties,
    log_names,
    prepare_head,
)
from feedproxy.server.response_head import encode_head
from feedproxy.settings import Settings
from feedproxy.store.resource import Resource

NOON = 1_790_000_000.0


def a_hit(number: int = 1) -> ReusableHit:
    target = f"http://origin.example/feed/{number}.rss"
    fields = Fields([("Cache-Control", "max-age=600"), ("ETag", f'"{number}"')])
    stored = StoredResponse(target, 200, fields, Content(Bodies({"identity": b"x"}), feed=True), NOON, NOON)
    resource = Resource(target, (stored,), Channel(Kind.RSS, "2.0", well_formed=True))
    return ReusableHit(
        resource, stored, Settings(), CacheControl(), None, frozenset(), counted=True, states_freshness=False
    )


def a_state(hit: ReusableHit, now: float) -> HitState:
    state = recompute_hit(hit, now)
    assert state is not None
    return state


def a_response(hit: ReusableHit, state: HitState, *more: tuple[str, str]) -> Response:
    fields, _ = state.fields()
    volatile = [("Age", str(fields.age)), ("Cache-Status", fields.cache_status)]
    return Response(200, Fields([*hit.stored.fields, *volatile, *more]), b"x")


def a_template(
    hit: ReusableHit, state: HitState, prepared: tuple[HeadForm, bytes], names: tuple[str, str] = ("", "")
) -> ResponseTemplate:
    client = ClientContext(Entrance.REVERSE, "http://feeds.example", address="192.0.2.1")
    form, own_values = prepared
    names_in_log = log_names(hit.resource.target, *names)
    shared = SharedProperties(
        hit.conditions, client, None, "GET", 200, False, 0, True, None, HitCounter(), "", form, names_in_log
    )
    return ResponseTemplate(hit.resource.target, shared, own_values, b"x", state)


def test_heads_of_two_feeds_share_one_form() -> None:
    states = [a_state(a_hit(number), NOON + 5) for number in (1, 2)]

    one, two = (
        prepare_head(a_response(a_hit(number), state), state, closes=False) for number, state in enumerate(states, 1)
    )

    assert one[0] is two[0]
    assert (one[1], two[1]) == (b'"1"', b'"2"')


@pytest.mark.parametrize("value", ["100%", "%b", "%%", "%(a)s", "a;b=%d"])
def test_head_repeats_percent_signs_in_fields(value: str) -> None:
    hit = a_hit()
    state = a_state(hit, NOON + 5)
    response = a_response(hit, state, ("X-Note", value), ("Link", value), ("X%b", "1"))
    template = a_template(hit, state, prepare_head(response, state, closes=True))

    template.update_volatile_fields(state)

    assert template.head == encode_head(200, response.fields.with_added("Connection", "close"))


def test_released_template_makes_its_head_again_at_the_next_hit() -> None:
    hit = a_hit()
    state = a_state(hit, NOON + 5)
    template = a_template(hit, state, prepare_head(a_response(hit, state), state, closes=False))
    template.update_volatile_fields(state)
    template.release()
    assert template.head == b""
    assert template.valid_until < NOON  # no instant is within the validity, even if the clock is set back

    assert template.hit_state.advance(NOON + 65.5)
    template.update_volatile_fields(template.hit_state)

    assert template.head == encode_head(200, a_response(hit, a_state(hit, NOON + 65.5)).fields)
    assert template.valid_until > NOON + 65.5


@pytest.mark.parametrize(
    ("public", "upstream"),
    [
        ("http://origin.example/feed/1.rss", ""),
        ("https://feeds.example/blog/feed/1.rss", "http://origin.example/feed/1.rss"),
        ("feeds.example", ""),
    ],
)
def test_template_returns_the_names_for_the_log(public: str, upstream: str) -> None:
    hit = a_hit()
    state = a_state(hit, NOON + 5)
    template = a_template(hit, state, prepare_head(a_response(hit, state), state, closes=False), (public, upstream))

    assert (template.public_name, template.upstream_name) == (public, upstream)
