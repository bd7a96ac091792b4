"""The sentences that bind who hears and who tells, in our words, and the tests that keep each.

From RSS Feed State (pinging), the rssCloud interface, the change notification service, and WebSub for hubs and
subscribers. What is kept nowhere stands at the end, with the reason.
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
    "followers": HERE.parent / "notify" / "test_subscriber_maintenance.py",
    "callback": HERE.parent / "notify" / "test_callback_policy.py",
    "clock": HERE.parent / "notify" / "test_clock_steps.py",
    "sinks": HERE.parent / "notify" / "test_ping_sinks.py",
}

PROMISES = """
Pinging: a sink that takes a GET answers 200 with a page for people
    pings a_get_ping_that_succeeds_has_status_200_and_a_page_for_people
Pinging: where it fails, another status and a page that says why
    pings a_get_ping_that_fails_has_another_status_and_a_page_that_says_why
Pinging: the values of a GET are URI encoded
    pings the_parameters_of_a_get_ping_are_uri_encoded
    sinks ping_template_values_are_encoded
Pinging: a simple ping has a name, and the address of the site or of the feed
    pings the_url_of_a_simple_ping_is_the_home_page_or_the_feed
Pinging: an extended ping has four parameters or five, the fourth the feed, the fifth tags
    pings an_extended_ping_has_four_or_five_parameters_and_the_fourth_is_the_feed
    sinks extended_ping_has_four_parameters_in_order
Pinging: the answer is a struct of flerror and message
    pings the_response_is_a_struct_of_flerror_and_message
    pings a_ping_that_is_refused_is_no_fault_and_says_why
Changes: a list has name, url and when of each ping, the newest first
    pings the_list_has_the_change_of_the_last_hours_with_name_url_and_when
    pings a_change_is_shown_at_once_newest_first
Changes: when is in minutes, or in seconds as it was first
    pings when_counts_seconds_where_the_request_wants_the_original
Changes: the long list has hours, the short one five minutes
    pings the_short_list_has_five_minutes_and_the_long_one_three_hours
Changes: every hour has its archive, and the first of a day is 01
    pings the_first_hour_of_a_day_is_01_and_the_last_24
    pings an_hour_that_is_none_or_is_to_come_is_not_found

rssCloud: a feed names its cloud by domain, port, path, procedure and protocol
    rsscloud a_feed_with_a_cloud_is_registered_for_by_http_post
    rsscloud a_cloud_that_cannot_be_called_is_left_alone
    rsscloud a_publishers_feed_names_our_cloud_by_option
rssCloud: the interface is there by XML-RPC and by SOAP
    rsscloud a_workstation_registers_by_xml_rpc_and_is_called_back_at_its_procedure
    rsscloud a_workstation_registers_by_soap_and_is_called_back_by_soap
    rsscloud a_feed_with_a_cloud_is_registered_for_by_xml_rpc
    rsscloud a_feed_with_a_cloud_is_registered_for_by_soap
rssCloud: names of protocols are case-sensitive
    rsscloud protocols_are_case_sensitive
rssCloud: who calls is found by his address, and cannot register another
    rsscloud the_callback_is_at_the_address_of_the_caller
    rsscloud whoever_does_not_give_the_challenge_back_is_told_nothing
    callback rsscloud_refuses_procedure_of_clouds
rssCloud: the cloud returns true where it could register, else false
    rsscloud the_cloud_returns_false_where_it_cannot_register
rssCloud: a changed channel is told of with its address as the one parameter
    rsscloud a_workstation_registers_by_http_post
rssCloud: who is told may read the channel, and returns true
    rsscloud a_notification_makes_us_read_the_channel
rssCloud: registrations expire after 25 hours
    rsscloud registrations_expire_after_25_hours
rssCloud: workstations register anew every 24 hours
    rsscloud we_register_every_24_hours
    rsscloud who_registers_every_24_hours_stays
    clock clock_step_forward_renews_at_once
rssCloud: and when they start
    rsscloud we_register_again_at_startup_and_after_an_outage

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
    websub link_fields_are_looked_at_first_then_the_document
WebSub 4, subscriber: https is favoured
    websub https_is_favoured_for_hubs_even_if_they_are_advertised_as_http
WebSub 5.1, subscriber: callback, mode and topic are asked for, the topic being the self link
    websub a_feed_that_is_read_is_subscribed_to_with_the_self_link_for_topic
WebSub 5.1, subscriber: callbacks are unguessable, and others with each renewal
    websub the_subscription_is_requested_again_before_the_lease_ends_with_a_callback_of_its_own
    websub nobody_confirms_at_an_address_that_was_never_given
WebSub 5.1, hub: a request with the three is accepted, in UTF-8 as a form
    websub a_request_with_callback_mode_and_topic_is_accepted_with_202_and_then_verified
    websub a_request_has_to_be_a_form
WebSub 5.1, hub: leases asked for may be respected, and are never perpetual
    websub a_lease_is_respected_within_bounds_and_never_perpetual
    websub a_lease_that_ends_is_enforced
WebSub 5.1, hub: a secret is accepted, if it is shorter than 200 bytes
    websub an_error_in_the_request_is_4xx_with_a_description_in_plain_text
WebSub 5.1, hub: parameters that are not known are ignored
    websub parameters_that_are_not_understood_are_ignored
WebSub 5.1, hub: a subscription may be requested again, and is replaced once that is verified
    websub a_subscription_can_be_requested_again_and_is_replaced_once_that_is_verified
WebSub 5.1, hub: a request that is not verified leaves everything as it was
    websub if_verification_fails_the_subscription_is_left_unchanged
WebSub 5.1, hub: the query of a callback is preserved, and what is not reserved decoded
    websub the_query_of_the_callback_is_preserved_and_parameters_appended
    websub the_topic_is_known_in_every_spelling_of_its_address
WebSub 5.1.2, hub: 202 for what will be verified; an error has a status of its own and words
    websub an_error_in_the_request_is_4xx_with_a_description_in_plain_text
WebSub 5.1.2, subscriber: 307 and 308 lead to another hub
    websub a_redirect_of_the_hub_is_followed
WebSub 5.2, hub: who is denied is told so, at any time
    websub our_own_feed_that_nobody_has_read_yet_is_looked_at_and_what_is_none_is_denied
    websub a_subscription_is_denied_when_its_topic_stops_being_public_before_it_is_delivered
    followers feed_made_private_by_origin_denies_subscribers_at_once
WebSub 5.2, subscriber: what is denied is over
    websub a_subscription_that_is_denied_is_over
WebSub 5.3, hub: intent is verified with a random challenge for each, before anything is sent
    websub a_request_with_callback_mode_and_topic_is_accepted_with_202_and_then_verified
    websub a_callback_that_cannot_be_reached_is_tried_thrice_with_a_challenge_of_its_own_each_time
    websub nothing_is_sent_before_intent_is_verified
WebSub 5.3, hub: any other answer than the challenge is a no
    websub any_other_answer_than_the_challenge_means_that_verification_failed
WebSub 5.3, hub: unsubscribing is verified as well
    websub unsubscribing_is_verified_as_well_and_ends_it
WebSub 5.3, subscriber: what was asked for is confirmed with the challenge
    websub what_was_asked_for_is_confirmed_with_the_challenge
WebSub 5.3, subscriber: what was not asked for is 404
    websub what_was_not_asked_for_is_404
WebSub 5.3, subscriber: the lease that was granted counts, and is renewed
    hub lease_is_renewed_repeatedly
WebSub 7, hub: the whole content is posted, with the topic's media type and links to hub and self
    websub the_full_content_is_posted_with_the_topics_type_and_links
    websub in_reverse_mode_the_topic_has_its_public_name
WebSub 7, hub: 2xx is success, whatever the body
    websub any_2xx_is_success_and_the_answers_body_is_ignored
WebSub 7, hub: 410 may end the subscription
    websub 410_ends_the_subscription
WebSub 7, hub: everything else is a failure, and is tried again
    websub all_other_answers_are_failures_that_are_retried_with_the_newest_content
WebSub 7, hub: the subscription stays to the end of its lease
    websub a_failing_subscription_stays_to_the_end_of_its_lease_and_gets_the_next_update
WebSub 7, subscriber: what comes is acknowledged with 2xx
    websub signed_content_becomes_the_copy_and_the_origin_is_not_asked
WebSub 7, subscriber: links that come with content identify nothing
    websub the_link_fields_of_a_push_identify_nothing
WebSub 7, subscriber: a part of the feed is no feed
    hub push_of_partial_feed_causes_fetch
WebSub 7, subscriber: what has ended is 410
    websub a_push_for_a_subscription_that_has_ended_is_410
WebSub 7.1, hub: with a secret the body is signed, by one of four methods
    websub with_a_secret_the_body_is_signed
WebSub 7.1, subscriber: the method that is named is used
    websub the_methods_that_the_hub_names_are_used
WebSub 7.1, subscriber: without a valid signature it is acknowledged and ignored
    websub content_without_a_valid_signature_is_acknowledged_and_ignored
"""

KEPT_NOWHERE = {
    "WebSub 4, subscriber: link elements of HTML pages": "topics here are feeds, never pages",
    "WebSub 5.1, subscriber: a secret only by https": "sent by http as well: content is believed then only where"
    " the feed itself is read by http, and a signature is better than none",
    "CNWS: a description of any length": "ours has 4000 characters at most; longer ones are read",
}
"""Sentences that ask for more than is done, and why."""


@pytest.mark.parametrize(("sentence", "where", "test"), promises(PROMISES), ids=str)
def test_promise_names_an_existing_test(sentence: str, where: str, test: str) -> None:
    assert sentence
    assert test in names_in(FILES[where])


def test_promises_cover_every_sentence_or_list_it_as_not_kept() -> None:
    check_sentences(PROMISES, KEPT_NOWHERE)


@pytest.mark.parametrize("where", ["pings", "rsscloud", "cnws", "websub"])
def test_promises_cover_every_specification(where: str) -> None:
    assert sum(named == where for _, named, _ in promises(PROMISES)) >= 10
