"""Limit of repeated log messages: the log has each message at most once a minute."""

import math

from feedproxy.clock import Seconds

LOG_INTERVAL: Seconds = 60
"""A repeated message is logged again after this many seconds."""

MESSAGES_MAX = 64
"""At most this many different messages are remembered."""


class RepeatedMessages:
    """The messages that were logged last. Several threads may use one object."""

    def __init__(self) -> None:
        self._logged: dict[str, Seconds] = {}

    def may_log(self, message: str, now: Seconds) -> bool:
        """If the message was not logged in the last LOG_INTERVAL seconds, record that it is logged now, and return
        True. Otherwise return False. `now` is the time of a monotonic clock."""
        if now - self._logged.get(message, -math.inf) < LOG_INTERVAL:
            return False
        if len(self._logged) >= MESSAGES_MAX:
            self._logged.clear()
        self._logged[message] = now
        return True
