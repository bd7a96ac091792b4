"""Notifications of changed feeds: a change log, subscriptions, a delivery queue, and the protocols that use them.

When a feed's content changes (`NotificationService.on_feed_changed`), one transaction records the change and enqueues a
delivery for every subscription to the feed. When another server reports a change (`RefreshRequests.accept_ping`), the
feed is fetched once. A ping or a subscription request is acknowledged only after the commit. CONTRIBUTING.md shows how
to add a protocol.
"""
