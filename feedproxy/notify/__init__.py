"""Who hears and who tells that a feed changed: one log of changes, one registry, one queue, many protocols.

A feed's content changes (the service says so, `Notices.changed`), and in one transaction the change is logged and a
delivery is queued for every subscription to that feed. Somebody tells us of a change (a ping, a push: `Bell.ring`),
and the feed is fetched, once. All of it lies in the ledger (database.py), so that nothing promised is lost with the
process: whoever was answered "accepted" was answered after the commit.

How a protocol is added
-----------------------
1. Write a class that follows `protocol.Protocol`: its `name`, how long it is patient, `message` (what to send for a
   delivery, asked for right before it is sent) and `judge` (what the answer means: `Delivered`, `Retry`, `Refused`).
   Retries, back-off, caps per host, address checks and the bookkeeping are the courier's. `sinks.py` is the shortest
   example.
2. An addon puts a function into `runtime.takes_part`, which gives the protocol to `Notices.add`, and methods for
   `/-/RPC2` to `notices.rpc.add`. Endpoints go to `runtime.endpoints`. `addons/pings.py` does all three.
3. Who wants to hear is a `Subscription` with role TELL (we tell them): `subscriptions.put(...)`, first PENDING, and
   ACTIVE once its callback has proved that it wants to be called. Only active ones get deliveries, `what="notify"`. A
   proof that needs an exchange (a challenge, a test notification) is a delivery too, so that it survives a restart
   and its host is not asked too much: `queue.add(Order(name, "verify", topic, callback, ...))`. Where the subscriber
   waits for the outcome it is `courier.ask`, within the same caps.
4. What we want to hear ourselves is a `Subscription` with role HEAR. The order that asks the hub is a delivery with
   `what="subscribe"`; `renew_at` says when `Protocol.renew` is called, which queues the next one. Before it asks for
   anything, `notices.hears` tells whether there is a `public_url` that others could call.
   (Where a feed names whom to ask, `outbound_subscriptions.py` does all of it, and `duplex_protocol.py` makes one
   protocol of the two sides: `aggregator.py` and `subscriber.py` are what is left to write.)
5. A push that came in is `bell.ring([topic], source)`, and `service.admin.record_push(topic, until)` where it had been
promised:
   then the feed is polled less. Content that came with it goes to `service.admin.apply_push`, which says why it does
   not do.

The topic of a subscription is always the target URI that we fetch (`service.admin.to_upstream_url(address)`); how the
subscriber wrote it belongs into `data`. Feeds that may not be listed (proxy/visibility.py) are told to nobody.
"""
