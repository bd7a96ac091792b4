"""Requirements on publishers, hubs and subscribers, paraphrased, each with its tests. They come from RSS Feed State
(pinging), the rssCloud interface, the change notification service, and WebSub. Requirements without a test are listed
at the end, with the reason.
"""

from pathlib import Path

import pytest

from tests.spec.promises import check_sentences, names_in, promises

HERE = Path(__file__).parent
FILES = {
    "pings": HERE / "test_rss_feed_state_pings.py",
    "rsscloud": HERE / "test_rsscloud.py",
    "cnws": HERE / "test_cnws.py",
    "websub": HERE / "test_websub.py",
    "hub": HERE.parent / "notify" / "test_websub.py",
    "followers": HERE.parent / "notify" / "test_subscriptions_to_moved_or_private_feeds.py",
    "callback": HERE.parent / "notify" / "test_callback_loop.py",
    "clock": HERE.parent / "notify" / "test_clock_steps.py",
    "sinks": HERE.parent / "notify" / "test_ping_sinks.py",
}

PROMISES = """
Pinging: a sink that takes a GET answers 200 with a page for people
    pings get_ping_that_succeeds_is_answered_200_with_an_html_page
Pinging: where it fails, another status and a page that says why
    pings get_ping_that_fails_is_answered_400_with_an_html_page_stating_the_reason
Pinging: the values of a GET are URI encoded
    pings get_ping_parameters_are_uri_encoded
    sinks ping_template_values_are_encoded
Pinging: a simple ping has a name, and the address of the site or of the feed
    pings simple_ping_url_is_the_home_page_or_the_feed
Pinging: an extended ping has four parameters or five, the fourth the feed, the fifth tags
    pings extended_ping_has_four_or_five_parameters_and_the_fourth_is_the_feed
    sinks extended_ping_has_four_parameters_in_order
Pinging: the answer is a struct of flerror and message
    pings xml_rpc_response_is_a_struct_of_flerror_and_message
    pings ping_that_is_rejected_returns_flerror_with_the_reason
Changes: a list has name, url and when of each ping, the newest first
    pings changes_list_has_name_url_and_when_of_recent_changes
    pings changes_list_shows_changes_at_once_newest_first
Changes: when is in minutes, or in seconds as it was first
    pings changes_list_counts_when_in_seconds_on_request
Changes: the long list has hours, the short one five minutes
    pings changes_list_covers_three_hours_and_the_short_list_five_minutes
Changes: every hour has its archive, and the first of a day is 01
    pings changes_archive_names_the_first_hour_01_and_the_last_24
    pings changes_archive_returns_not_found_for_invalid_or_future_hours

rssCloud: a feed names its cloud by domain, port, path, procedure and protocol
    rsscloud cloud_element_with_http_post_is_registered_with
    rsscloud cloud_element_that_cannot_be_called_is_ignored
    rsscloud announce_cloud_adds_a_cloud_element_to_feeds_of_the_upstream
rssCloud: the interface is there by XML-RPC and by SOAP
    rsscloud registration_by_xml_rpc_is_notified_at_its_procedure
    rsscloud registration_by_soap_is_notified_by_soap
    rsscloud cloud_element_with_xml_rpc_is_registered_with
    rsscloud cloud_element_with_soap_is_registered_with
rssCloud: names of protocols are case-sensitive
    rsscloud protocol_names_are_case_sensitive
rssCloud: who calls is found by his address, and cannot register another
    rsscloud callback_without_domain_uses_the_address_of_the_caller
    rsscloud callback_that_does_not_return_the_challenge_is_not_notified
    callback rsscloud_refuses_procedure_of_clouds
rssCloud: the cloud returns true where it could register, else false
    rsscloud registration_that_fails_returns_false
rssCloud: a changed channel is told of with its address as the one parameter
    rsscloud registration_by_http_post_is_notified_by_http_post
rssCloud: who is told may read the channel, and returns true
    rsscloud notification_causes_a_fetch
rssCloud: registrations expire after 25 hours
    rsscloud registration_expires_after_25_hours
rssCloud: workstations register anew every 24 hours
    rsscloud registration_with_a_cloud_is_renewed_every_24_hours
    rsscloud registration_renewed_every_24_hours_is_kept
    clock clock_step_forward_renews_at_once
rssCloud: and when they start
    rsscloud registration_with_a_cloud_is_renewed_at_startup_and_after_an_outage

CNWS: a subscriber posts what it wants to hear of and where, and is answered true with title and description
    cnws subscription_is_answered_true_with_title_and_description
    cnws subscriber_requests_subscription_from_configured_publisher
CNWS: an error or false means that the subscription is refused
    cnws subscription_to_unpublished_resource_is_answered_false
    cnws invalid_message_is_answered_400_and_false
    cnws subscription_refused_by_publisher_is_requested_again_after_a_day
CNWS: who is on the list already is answered true
    cnws repeated_subscription_is_answered_true
CNWS: a change is posted to every subscriber
    cnws change_is_sent_to_the_subscriber
CNWS: title and description are plain text, the title 255 characters at most
    cnws title_and_description_are_plain_text_and_title_is_at_most_255_characters
CNWS: what is in another namespace is extra
    cnws notification_with_foreign_namespace_elements_is_accepted
CNWS: who answers false is removed
    cnws subscriber_that_answers_false_is_removed
CNWS: who answers with an error of HTTP is removed
    cnws subscriber_that_answers_http_error_is_removed
CNWS: who cannot be reached is tried for 24 hours at least, and once at their end
    cnws unreachable_subscriber_is_retried_for_24_hours_and_once_at_the_end
    cnws unreachable_subscriber_that_recovers_within_a_day_is_notified_and_kept
CNWS: to unsubscribe, false is answered to the next notification
    cnws notification_for_unsubscribed_resource_is_answered_false
CNWS: after an outage subscriptions are confirmed
    cnws subscription_is_confirmed_after_an_outage
CNWS: and after 30 silent days
    cnws subscription_is_confirmed_after_30_days_without_notification

WebSub 4, subscriber: Link fields are looked at before the document
    websub discovery_prefers_link_fields_to_the_document
WebSub 4, subscriber: https is favoured
    websub discovery_prefers_https_for_hubs_advertised_as_http
WebSub 5.1, subscriber: callback, mode and topic are asked for, the topic being the self link
    websub subscriber_requests_the_self_link_as_topic
WebSub 5.1, subscriber: callbacks are unguessable, and others with each renewal
    websub subscriber_renews_before_the_lease_ends_with_a_new_callback
    websub subscriber_answers_404_at_an_unknown_callback
WebSub 5.1, hub: a request with the three is accepted, in UTF-8 as a form
    websub subscription_request_is_answered_202_and_then_verified
    websub subscription_request_must_be_a_form
WebSub 5.1, hub: leases asked for may be respected, and are never perpetual
    websub lease_is_granted_within_bounds
    websub lease_that_expires_ends_the_subscription
WebSub 5.1, hub: a secret is accepted, if it is shorter than 200 bytes
    websub subscription_request_with_an_error_is_answered_4xx_with_plain_text
WebSub 5.1, hub: parameters that are not known are ignored
    websub subscription_request_parameters_that_are_unknown_are_ignored
WebSub 5.1, hub: a subscription may be requested again, and is replaced once that is verified
    websub subscription_is_replaced_once_a_repeated_request_is_verified
WebSub 5.1, hub: a request that is not verified leaves everything as it was
    websub subscription_is_unchanged_if_verification_fails
WebSub 5.1, hub: the query of a callback is preserved, and what is not reserved decoded
    websub callback_query_is_preserved_and_parameters_are_appended
    websub topic_is_recognised_in_every_equivalent_spelling
WebSub 5.1.2, hub: 202 for what will be verified; an error has a status of its own and words
    websub subscription_request_with_an_error_is_answered_4xx_with_plain_text
WebSub 5.1.2, subscriber: 307 and 308 lead to another hub
    websub subscriber_follows_a_redirect_of_the_hub
WebSub 5.2, hub: who is denied is told so, at any time
    websub subscription_to_an_unread_upstream_topic_fetches_it_and_denies_non_feeds
    websub subscription_is_denied_when_its_topic_becomes_private_before_delivery
    followers feed_made_private_by_origin_denies_subscribers_at_once
WebSub 5.2, subscriber: what is denied is over
    websub subscriber_ends_a_denied_subscription
WebSub 5.3, hub: intent is verified with a random challenge for each, before anything is sent
    websub subscription_request_is_answered_202_and_then_verified
    websub verification_of_an_unreachable_callback_is_tried_three_times_with_new_challenges
    websub verification_precedes_any_delivery
WebSub 5.3, hub: any other answer than the challenge is a no
    websub verification_fails_on_any_answer_other_than_the_challenge
WebSub 5.3, hub: unsubscribing is verified as well
    websub unsubscription_is_verified_and_ends_the_subscription
WebSub 5.3, subscriber: what was asked for is confirmed with the challenge
    websub subscriber_returns_the_challenge_for_a_requested_subscription
WebSub 5.3, subscriber: what was not asked for is 404
    websub subscriber_answers_404_to_verification_of_an_unrequested_subscription
WebSub 5.3, subscriber: the lease that was granted counts, and is renewed
    hub lease_is_renewed_repeatedly
WebSub 7, hub: the whole content is posted, with the topic's media type and links to hub and self
    websub delivery_has_the_full_content_media_type_and_links
    websub delivery_in_reverse_mode_names_the_public_topic
WebSub 7, hub: 2xx is success, whatever the body
    websub delivery_answered_2xx_is_successful_and_the_body_is_ignored
WebSub 7, hub: 410 may end the subscription
    websub delivery_answered_410_ends_the_subscription
WebSub 7, hub: everything else is a failure, and is tried again
    websub delivery_with_any_other_answer_is_retried_with_the_newest_content
WebSub 7, hub: the subscription stays to the end of its lease
    websub delivery_failure_keeps_the_subscription_until_its_lease_ends
WebSub 7, subscriber: what comes is acknowledged with 2xx
    websub push_with_a_valid_signature_replaces_the_copy_without_a_fetch
WebSub 7, subscriber: links that come with content identify nothing
    websub push_link_fields_are_ignored
WebSub 7, subscriber: a part of the feed is no feed
    hub push_of_partial_feed_causes_fetch
WebSub 7, subscriber: what has ended is 410
    websub push_for_an_ended_subscription_is_answered_410
WebSub 7.1, hub: with a secret the body is signed, by one of four methods
    websub delivery_with_a_secret_is_signed
WebSub 7.1, subscriber: the method that is named is used
    websub push_accepts_every_signature_method_of_the_hub
WebSub 7.1, subscriber: without a valid signature it is acknowledged and ignored
    websub push_without_a_valid_signature_is_acknowledged_and_ignored
"""

KEPT_NOWHERE = {
    "WebSub 4, subscriber: link elements of HTML pages": "topics here are feeds, never pages",
    "WebSub 5.1, subscriber: a secret only by https": "sent by http as well: content is believed then only where"
    " the feed itself is read by http, and a signature is better than none",
    "CNWS: a description of any length": "ours has 4000 characters at most; longer ones are read",
}
"""Requirements that feedproxy does not meet, with the reason."""


@pytest.mark.parametrize(("sentence", "where", "test"), promises(PROMISES), ids=str)
def test_promise_names_an_existing_test(sentence: str, where: str, test: str) -> None:
    assert sentence
    assert test in names_in(FILES[where])


def test_promises_cover_every_sentence_or_list_it_as_not_kept() -> None:
    check_sentences(PROMISES, KEPT_NOWHERE)


@pytest.mark.parametrize("where", ["pings", "rsscloud", "cnws", "websub"])
def test_promises_cover_every_specification(where: str) -> None:
    assert sum(named == where for _, named, _ in promises(PROMISES)) >= 10
