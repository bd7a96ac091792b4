"""Properties of reader counts for any history of requests: a simple, unbounded count gives the same result."""

from hypothesis import given, settings
from hypothesis import strategies as st

from feedproxy.http.user_agent import format_user_agent, parse_claim, product
from feedproxy.subscribers.claim_confirmation import PEAKS_MAX, ClaimState, current_claim, update_claim
from feedproxy.subscribers.reader_pseudonyms import Identifier
from feedproxy.subscribers.subscriber_counts import SubscriberCounts
from tests.subscribers.dumps import dumped

FEED = "https://example.com/feed.xml"
NOW = 1_795_176_000.0
WINDOW = 86_400.0

steps = st.lists(
    st.tuples(
        st.sampled_from(["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "198.51.100.1"]),
        st.sampled_from(["curl/8", "NetNewsWire", "Miniflux/2.2.0"]),
        st.sampled_from(["", "", "ann"]),
        st.sampled_from([0, 1, 600, 3600, 43_200, 86_399, 86_400, 200_000]),
    ),
    max_size=30,
)


unhurried = settings(deadline=None)
"""A machine under load is no counter-example."""


@unhurried
@given(steps)
def test_direct_readers_are_those_that_polled_within_the_window(
    requests: list[tuple[str, str, str, int]],
) -> None:
    counts, identifier = SubscriberCounts(), Identifier(b"sixteen bytes or more", period=WINDOW)
    last: dict[tuple[str, str], float] = {}
    now = NOW
    for address, agent, user, pause in requests:
        now += pause
        counts.record_read(FEED, identifier.pseudonym(address, agent, user, now), agent, now)
        home = user or ("2001:db8::" if ":" in address else address)
        last[home, agent] = now

        assert counts.total(FEED, now) == sum(now - seen < WINDOW for seen in last.values())


@unhurried
@given(st.lists(st.tuples(st.integers(0, 500), st.sampled_from([0, 60, 3600, 40_000, 86_400])), max_size=PEAKS_MAX))
def test_largest_claim_within_the_window_counts_without_jumps(claims: list[tuple[int, int]]) -> None:
    belief: ClaimState | None = None
    made: list[tuple[int, float]] = []
    now = NOW
    for count, pause in claims:
        now += pause
        belief = update_claim(belief, count, now, window=WINDOW, jump=0)
        made.append((count, now))

        assert current_claim(belief, now, WINDOW) == max(each for each, at in made if now - at < WINDOW)


@unhurried
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 90_000)), min_size=1, max_size=60))
def test_unconfirmed_claim_grows_at_most_tenfold_within_an_hour(claims: list[tuple[int, int]]) -> None:
    belief = update_claim(None, 100, NOW, window=WINDOW, jump=10)
    now = NOW
    for count, pause in claims:
        before, waited = current_claim(belief, now, WINDOW), belief.unconfirmed
        now += pause % 3000
        belief = update_claim(belief, count, now, window=WINDOW, jump=10)

        if waited is None or now - waited[1] < 3600:
            assert current_claim(belief, now, WINDOW) <= 10 * max(before, 1)
        assert len(belief.peaks) <= PEAKS_MAX


@unhurried
@given(steps)
def test_dumped_counts_are_loaded_unchanged(requests: list[tuple[str, str, str, int]]) -> None:
    counts, identifier = SubscriberCounts(), Identifier(b"sixteen bytes or more")
    now = NOW
    for address, agent, user, pause in requests:
        now += pause
        counts.record_read(f"https://{address}/", identifier.pseudonym(address, agent, user, now), agent, now)
    data = dumped(counts)
    again = SubscriberCounts()
    again.load(data, now)
    counts.prune(now)

    assert [again.view(target, now) for target in again.targets()] == [
        counts.view(target, now) for target in counts.targets()
    ]


@unhurried
@given(st.text(max_size=300))
def test_any_user_agent_can_be_parsed(user_agent: str) -> None:
    claim = parse_claim(user_agent)

    assert claim is None or (claim.count >= 0 and claim.fetcher)
    assert 0 < len(product(user_agent)) <= 40


@unhurried
@given(st.integers(1, 10**12), st.text("0123456789abcdef", min_size=1, max_size=64), st.text(max_size=25))
def test_user_agent_of_feedproxy_is_parsed_to_its_count(count: int, feed_id: str, contact: str) -> None:
    said = format_user_agent("1.0", f"https://example.com/{contact}", count, feed_id)
    claim = parse_claim(said)

    assert said.isascii()
    assert said.isprintable()
    assert claim is not None
    assert (claim.fetcher, claim.count) == ("feedproxy", count)
