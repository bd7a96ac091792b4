"""Subscriber counts in User-Agent: the conventions of aggregators, and feedproxy's use of them. Each test checks one
promise.
"""

from typing import Any

import pytest

from feedproxy.http.user_agent import format_user_agent
from feedproxy.subscribers.reader_pseudonyms import Identifier
from feedproxy.subscribers.subscriber_counts import SubscriberCounts

FEED = "https://example.com/feed.xml"
HOUR, DAY = 3600.0, 86_400.0
NOON = 1_795_176_000.0


class Office:
    """The counts of a proxy, which receives requests of readers."""

    def __init__(self, **options: Any) -> None:
        self.counts = SubscriberCounts(**options)
        self.identifier = Identifier(b"a secret of the test's", period=options.get("window", 86_400))
        self.now = NOON

    def asks(
        self, user_agent: str = "NetNewsWire", address: str = "192.0.2.1", *, user: str = "", feed: str = FEED
    ) -> int:
        """Record a request and return the feed's count after it."""
        self.counts.record_read(
            feed, self.identifier.pseudonym(address, user_agent, user, self.now), user_agent, self.now
        )
        return self.counts.total(feed, self.now)

    def total(self, feed: str = FEED) -> int:
        return self.counts.total(feed, self.now)


def feedly(count: int) -> str:
    return f"Feedly/1.0 (+http://www.feedly.com/fetcher.html; {count} subscribers; like FeedFetcher-Google)"


def feedbin(count: int, feed_id: int) -> str:
    return f"Feedbin feed-id:{feed_id} - {count} subscribers"


@pytest.fixture
def office() -> Office:
    return Office()


# -- direct readers


def test_count_of_a_feed_without_requests_is_zero(office: Office) -> None:
    assert office.total() == 0


def test_count_includes_the_current_request(office: Office) -> None:
    assert office.asks() == 1


def test_reader_that_asks_again_is_counted_once(office: Office) -> None:
    for _ in range(50):
        office.asks()
        office.now += 60

    assert office.total() == 1


def test_reader_at_another_address_is_counted_separately(office: Office) -> None:
    office.asks(address="192.0.2.1")

    assert office.asks(address="192.0.2.2") == 2


def test_reader_with_another_program_is_counted_separately(office: Office) -> None:
    office.asks("NetNewsWire")

    assert office.asks("Miniflux/2.2.0") == 2


def test_reader_who_is_signed_in_is_counted_once_at_all_addresses(office: Office) -> None:
    office.asks(address="192.0.2.1", user="ann")

    assert office.asks(address="198.51.100.7", user="ann") == 1
    assert office.asks(address="198.51.100.7", user="bob") == 2


def test_reader_is_identified_by_the_ipv6_network_of_64_bits(office: Office) -> None:
    office.asks(address="2001:db8:1:2:aaaa::1")

    assert office.asks(address="2001:db8:1:2:bbbb::2") == 1
    assert office.asks(address="2001:db8:1:3::1") == 2


def test_readers_are_counted_for_each_feed_separately(office: Office) -> None:
    office.asks(feed="https://example.com/a")
    office.asks(feed="https://example.com/b", address="192.0.2.2")

    assert office.total("https://example.com/a") == office.total("https://example.com/b") == 1


def test_reader_is_counted_within_the_window_only(office: Office) -> None:
    office.asks()

    office.now += DAY - 1
    assert office.total() == 1
    office.now += 1
    assert office.total() == 0


def test_subscriber_window_restarts_with_every_request(office: Office) -> None:
    office.asks()
    office.now += 23 * HOUR
    office.asks()
    office.now += 23 * HOUR

    assert office.total() == 1


def test_reader_counts_until_the_window_ends() -> None:
    office = Office(window=600)
    office.asks()

    office.now += 599
    assert office.total() == 1
    office.now += 1
    assert office.total() == 0


def test_key_rotation_does_not_count_a_reader_twice(office: Office) -> None:
    for _ in range(24 * 7):
        assert office.asks() == 1
        office.now += HOUR


def test_key_rotation_keeps_readers_without_a_later_request(office: Office) -> None:
    office.now = NOON + 11 * HOUR
    office.asks(address="192.0.2.1")
    office.asks(address="192.0.2.2")
    office.now += 2 * HOUR  # past midnight

    assert office.asks(address="192.0.2.1") == 2


# -- claims


def test_claim_counts_as_many_readers_as_it_states(office: Office) -> None:
    assert office.asks(feedly(457)) == 457


def test_claim_excludes_the_request_from_direct_readers(office: Office) -> None:
    office.asks(feedly(457))

    assert office.counts.view(FEED, office.now).direct == 0


def test_claims_and_direct_readers_are_added(office: Office) -> None:
    office.asks(feedly(457))
    office.asks(feedbin(142, 1))

    assert office.asks("NetNewsWire") == 457 + 142 + 1


def test_claim_of_a_fetcher_with_many_addresses_counts_once(office: Office) -> None:
    for host in range(1, 30):
        office.asks(feedly(457), address=f"192.0.2.{host}")

    assert office.total() == 457


def test_claim_counted_is_the_largest_current_one_of_a_fetcher(office: Office) -> None:
    office.asks(feedly(457))
    office.asks("Feedly/1.0 (poller; 131 subscribers;)")

    assert office.asks(feedly(462)) == 462


def test_claim_that_is_larger_counts_until_it_expires(office: Office) -> None:
    office.asks(feedly(30))
    office.now += HOUR
    assert office.asks(feedly(25)) == 30

    office.now += 23 * HOUR
    assert office.total() == 25
    office.now += HOUR
    assert office.total() == 0


def test_claims_of_one_service_with_several_agent_strings_count_once(office: Office) -> None:
    office.asks("NewsBlur Feed Fetcher - 27 subscribers - https://www.newsblur.com/site/7704055/name")

    assert office.asks("NewsBlur Page Fetcher - 27 subscribers - https://www.newsblur.com/site/7704055/name") == 27


def test_claims_of_one_service_with_several_feed_ids_are_added(office: Office) -> None:
    office.asks(feedbin(142, feed_id=1))

    assert office.asks(feedbin(7, feed_id=2)) == 149


def test_claim_of_zero_counts_zero(office: Office) -> None:
    assert office.asks(feedly(0)) == 0


# -- caps and jumps


def test_claim_counts_as_at_most_claim_max() -> None:
    assert Office(claim_max=1000).asks(feedly(50_000)) == 1000


def test_claim_cap_applies_to_the_sum_over_feed_ids_of_a_fetcher() -> None:
    office = Office(claim_max=1000)
    for feed_id in range(20):
        office.asks(feedbin(900, feed_id))

    assert office.total() == 1000


def test_claim_jump_is_held_back(office: Office) -> None:
    office.asks(feedly(20))
    office.now += 600

    assert office.asks(feedly(1_000_000)) == 20


def test_claim_of_a_million_at_first_is_held_back_until_repeated_after_an_hour(office: Office) -> None:
    assert office.asks(feedly(1_000_000)) == 1
    office.now += HOUR - 1
    assert office.asks(feedly(1_000_000)) == 1
    office.now += 1

    assert office.asks(feedly(1_000_000)) == 1_000_000


def test_claim_of_thousands_at_first_is_accepted_at_once(office: Office) -> None:
    office.asks(feedly(1_000_000))

    assert office.asks(feedly(10_000)) == 10_000
    assert office.asks(feedly(1_000_000)) == 10_000


def test_claims_of_many_new_fetchers_are_held_back_together(office: Office) -> None:
    invented = [f"Bot{number}/1.0 (5000 subscribers)" for number in range(100)]
    for agent in [*invented, *invented]:
        counted = office.asks(agent)
    assert counted == 10_000 + 98
    office.now += HOUR

    for agent in invented:
        counted = office.asks(agent)
    assert counted == 500_000


def test_claim_of_a_known_fetcher_is_kept_beside_claims_that_are_held_back(office: Office) -> None:
    office.asks(feedly(400))
    for number in range(100):
        office.asks(f"Bot{number}/1.0 (5000 subscribers)")

    before = office.asks("Bot0/1.0 (5000 subscribers)")

    assert office.asks(feedly(400)) == before
    assert office.asks(feedly(399)) == before


def test_claim_jump_repeated_after_an_hour_is_accepted(office: Office) -> None:
    office.asks(feedly(20))
    office.asks(feedly(500))
    office.now += HOUR - 1
    assert office.asks(feedly(505)) == 20
    office.now += 1

    assert office.asks(feedly(510)) == 510


def test_claim_jump_that_is_not_repeated_is_never_accepted(office: Office) -> None:
    office.asks(feedly(20))
    office.asks(feedly(1_000_000))
    for _ in range(72):
        office.now += HOUR
        assert office.asks(feedly(21)) <= 21


def test_claim_growth_below_the_jump_limit_is_accepted_at_once(office: Office) -> None:
    office.asks(feedly(20))

    assert office.asks(feedly(200)) == 200


def test_claim_jumps_within_an_hour_are_added_up(office: Office) -> None:
    for power in range(7):
        office.asks(feedly(10**power))
        office.now += 60

    assert office.total() == 10


def test_claim_confirmation_does_not_cover_a_larger_jump(office: Office) -> None:
    office.asks(feedly(20))
    office.asks(feedly(500))
    office.now += HOUR

    assert office.asks(feedly(1_000_000)) == 20


def test_claim_held_back_is_shown_separately(office: Office) -> None:
    office.asks(feedly(20))
    office.asks(feedly(500))

    (claim,) = office.counts.view(FEED, office.now).claims
    assert (claim.fetcher, claim.count, claim.unconfirmed_count) == ("feedly", 20, 500)


def test_claim_jump_limit_can_be_disabled() -> None:
    office = Office(claim_jump=0)
    office.asks(feedly(1))

    assert office.asks(feedly(100_000)) == 100_000


# -- told upstream


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "(+https://example.com/; feed-id=9a)"), (1, "; 1 subscriber;"), (2, "; 2 subscribers;")],
)
def test_user_agent_states_the_count(count: int, said: str) -> None:
    assert said in format_user_agent("1.0", "https://example.com/", count, "9a")


def test_user_agent_count_is_counted_by_another_feedproxy(office: Office) -> None:
    office.asks("curl/8.5.0")

    assert office.asks(format_user_agent("1.0", "https://office.example/", 12, "9a")) == 13
