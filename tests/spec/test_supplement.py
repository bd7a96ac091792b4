"""Promises about feeds, from a table (supplement/): each is played on the service, with the injected clock."""

import re
from collections import Counter

import pytest

from feedproxy.cache.cache_status import Detail, Fwd
from tests.spec.supplement.promise import Promise
from tests.spec.supplement.stage import keeps
from tests.spec.supplement.table import PROMISES


def label(promise: Promise) -> str:
    return f"{promise.name} ({promise.case})" if promise.case else promise.name


def a_row(promise: Promise) -> object:
    marks = [pytest.mark.xfail(strict=True, reason=promise.broken)] if promise.broken else []
    return pytest.param(promise, id=label(promise), marks=marks)


@pytest.mark.parametrize("promise", [a_row(promise) for promise in PROMISES])
async def test_promise_is_kept(promise: Promise) -> None:
    await keeps(promise)


def test_promises_are_unique() -> None:
    twice = [found for found, times in Counter(map(label, PROMISES)).items() if times > 1]

    assert not twice


NOT_HERE = {
    Detail.NOT_FOUND: "the listener's own pages",
    Detail.METHOD: "the listener's own pages",
    Detail.CONTENT_TOO_LARGE: "the listener's own pages",
    Detail.PASS_THROUGH: "requests that do not reach the service",
    Detail.DRAIN: "the listener shutting down",
    Detail.ACCESS: "who may read is asked at the desk",
    Detail.NOT_A_FEED: "other formats are an endpoint of their own",
    Detail.PUSH: "what others push comes by endpoints of their own",
    Detail.TOO_OFTEN: "pings and subscriptions, which are endpoints of their own",
    Detail.FULL: "subscriptions, which are endpoints of their own",
    Detail.BAD_LIST: "the operator's listener",
    Detail.RECORDING: "the start of a recording",
    Detail.BUSY: "what others are asked, not what is answered",
    Detail.WEBSUB: "an endpoint of its own",
    Detail.PARENT_PROXY: "how the network is reached (tests/upstream/test_parent_proxy.py)",
    Detail.PAUSED: "a decision of the operator's (tests/scenarios/test_decisions.py)",
    Detail.BAD_STEP: "the operator's listener",
    Detail.BAD_REQUEST: "requests that are no HTTP are refused before the service",
    Detail.OVERLOAD: "a machine that has no connection or descriptor left",
    Detail.NO_NETWORK: "a machine without a network (tests/refresh/test_local_resource_exhaustion.py)",
    Detail.STORE_ERROR: "a store that fails",
    Detail.INTERNAL_ERROR: "a fault of ours",
    Detail.FETCH_ERROR: "a fetcher without a better word",
    Detail.AUTHENTICATION: "what the gateway cannot forward (tests/scenarios/test_request_isolation.py)",
    Detail.WRONG_HOST: "host names are checked before the service (tests/security/test_dns_rebinding.py)",
    Detail.INVALIDATED: "the operator's page; Cache-Status says fwd=stale",
}


def test_promises_cover_every_detail_of_the_service() -> None:
    said = {word for row in PROMISES for word in _words(row)}

    assert {detail for detail in Detail if f"detail={detail}" not in said} == set(NOT_HERE)


def test_promises_cover_every_fwd_reason_of_the_service() -> None:
    said = {word for row in PROMISES for word in _words(row)}

    # What goes by its method does not reach the service; it never says miss or partial, since it always knows more.
    assert {fwd for fwd in Fwd if f"fwd={fwd}" not in said} == {Fwd.METHOD, Fwd.MISS, Fwd.PARTIAL}


def _words(promise: Promise) -> list[str]:
    return [*promise.expectation.says, *re.split("; ", promise.expectation.cache or "")]
