"""Stored forms of subscriber counts and poll rhythms, for tests without an event loop."""

import asyncio

from feedproxy.subscribers.poll_rhythms import PollRhythms
from feedproxy.subscribers.subscriber_counts import SubscriberCounts


def dumped(counts: SubscriberCounts | PollRhythms) -> bytes:
    return asyncio.run(counts.dump())
