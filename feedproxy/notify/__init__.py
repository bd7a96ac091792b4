"""Notifications of changed feeds: a change log, subscriptions, a delivery queue, and the protocols that use them.

When a feed's content changes (`NotificationService.on_feed_changed`), one transaction records the change and enqueues a
delivery for every subscription to the feed. When another server reports a change (`RefreshRequests.accept_ping`), the
feed is fetched once. One database contains the changes, deliveries and requests (notification_database.py). A request
is acknowledged only after the commit.

How to add a protocol:

1. Write a class that follows `notification_protocol.Sender`. `message` returns what to send for a delivery, and
   `interpret` says what the response means: `Delivered`, `Retry` or `Refused`. The delivery worker does the rest:
   retries, limits per site, address checks. `pings/sinks.py` is the shortest example.
2. Write an addon that extends `server.addon.NotificationAddon`. Its `make_part` adds the sender to
   `NotificationService.senders`, or by `add_sinks` if the operator configures the receivers. It adds methods for
   `/-/RPC2` to `notifications.xmlrpc`, and endpoints to `app.endpoints`. `addons/pings.py` does all of this.
3. Store each subscriber as a `Subscription` with role SUBSCRIBER (`subscriptions.put`). Its state is PENDING until its
   callback is verified, and then ACTIVE. Only active subscriptions are notified. Enqueue a verification as a delivery
   (`what="verify"`), which survives a restart. If the client waits for the outcome, use `delivery_worker.request_now`.
4. Store each subscription of feedproxy at another server as a `Subscription` with role PUBLISHER. Its request is a
   delivery (`what="subscribe"`), which a `SubscriberSender` in `NotificationService.subscribers` sends. The service
   calls its method `renew` at `renew_at`. Without `public_url` no server can call back: check
   `notifications.can_receive_calls`. `outbound_subscriptions.py` does all of this for protocols in which the feed names
   the server.
5. For a received push, call `refresh_requests.accept_ping([topic], source)`. For a push that belongs to a subscription,
   also call `proxy.admin.record_push(topic, until)`, so that feedproxy polls the feed less often. Pass pushed content
   to `proxy.admin.apply_push`.

The topic of a subscription is always the target URI that feedproxy fetches. `data` contains the URL that the subscriber
wrote. No notification names a feed that public lists must not name (proxy/public_feeds.py).
"""
