"""Repeated log messages are limited, each by itself."""

from feedproxy.repeated_log_messages import LOG_INTERVAL, RepeatedMessages


def test_message_may_be_logged_once_in_the_interval() -> None:
    messages = RepeatedMessages()

    assert messages.may_log("the disk is full", 0.0)
    assert not messages.may_log("the disk is full", LOG_INTERVAL - 1)
    assert messages.may_log("the disk is full", LOG_INTERVAL)


def test_another_message_may_be_logged_at_once() -> None:
    messages = RepeatedMessages()

    assert messages.may_log("the disk is full", 0.0)
    assert messages.may_log("the folder is gone", 0.0)
