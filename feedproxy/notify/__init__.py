"""Notifications of changed feeds: a change log, subscriptions, a delivery queue, and the protocols that use them.

When a feed's content changes (`NotificationService.on_feed_changed`), one transaction records the change and enqueues a
delivery for every subscription to that feed. When another server reports a change by a ping or a push
(`RefreshRequests.accept_ping`), the feed is fetched once. Changes, deliveries and requests are in one database
(notification_database.py) and survive the process. A request is acknowledged only after the commit.

How to add a protocol
---------------------
1. Write a class that follows `protocol.Protocol`: its `name`, how long it retries, `message` (what to send for a
   delivery, called right before sending) and `interpret` (what the response means: `Delivered`, `Retry`, `Refused`).
   The delivery worker does retries, back-off, limits per host, address checks and bookkeeping. `pings/sinks.py` is the
   shortest example.
2. An addon extends `server.addon.NotificationAddon`. Its method `make_part` gives the protocol to
   `NotificationService.add`, and methods for `/-/RPC2` to `notifications.xmlrpc.add`. Endpoints go to `app.endpoints`.
   `addons/pings.py` does all three.
3. A subscriber is a `Subscription` with role SUBSCRIBER, which `subscriptions.put(...)` stores. Its state is PENDING
   until the callback is verified, and then ACTIVE. Only active subscriptions get notifications (deliveries with
   `what="notify"`). If the verification sends a request (a challenge or a test notification), enqueue that request as
   a delivery: `queue.add(DeliveryRequest(name, "verify", topic, callback, ...))`. It then survives a restart, and
   respects the limits per host. If the subscriber waits for the outcome, use `delivery_worker.request_now` instead. It
   respects the same limits, but does not survive a restart.
4. A subscription of this proxy at another server is a `Subscription` with role PUBLISHER. The request to the hub is a
   delivery with `what="subscribe"`. At `renew_at` the service calls `Protocol.renew`, which enqueues the next request.
   Check `notifications.can_receive_calls` first: without `public_url` no server can call back. For protocols in which
   the feed names the server, `outbound_subscriptions.py` does this step; `publisher_and_subscriber.py` joins the
   publisher and the subscriber of one protocol.
5. For a received push, call `refresh_requests.accept_ping([topic], source)`. If the push belongs to a subscription,
   also call `proxy.admin.record_push(topic, until)`: the feed is then polled less. Content of a push goes to
   `proxy.admin.apply_push`, which returns a reason if the content is not used.

The topic of a subscription is always the target URI that the proxy fetches; `data` contains the URL that the subscriber
wrote. No notification names a feed that public lists may not name (proxy/public_feeds.py).
"""
