"""The product's polling policy and a second simulation of it, which is written from its description, agree."""

import pytest

from benchmarks import polling, polling_independent


@pytest.mark.parametrize(("profile", "price"), [("modern", 1800.0), ("survey2026", 300.0)])
def test_policy_and_independent_simulation_agree_within_a_tenth(profile: str, price: float) -> None:
    worlds = polling.world(profile, 41, 4, days=1)

    product, independent = polling.play(worlds, price), polling_independent.play(worlds, price)

    assert product.polls == independent.polls
    assert independent.requests == pytest.approx(product.requests, rel=0.1)
    assert independent.stale == pytest.approx(product.stale, rel=0.1)


@pytest.mark.parametrize("profile", ["modern", "imc2005"])
def test_higher_price_makes_fewer_requests_and_leaves_polls_staler(profile: str) -> None:
    worlds = polling.world(profile, 42, 3, days=1)

    played = [polling.play(worlds, price) for price in (60.0, 600.0, 6000.0)]

    requests, stale = [each.requests for each in played], [each.stale for each in played]
    assert requests == sorted(requests, reverse=True)
    assert stale == sorted(stale)
