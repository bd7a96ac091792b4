"""Several machines as one proxy. They share copies, leases, reader counts and events through a Redis.

Each machine answers clients from its own memory and disk. Hits do not use Redis. A miss asks Redis before the origin,
and a queue sends new copies to Redis. Without Redis, each machine continues with its local store.

Each copy has a fencing token. It is the token of the lease under which the copy was fetched, or is derived from the
time of the fetch. Of two copies of a target, the copy with the higher token is valid, on each machine and in Redis. A
copy with a lower token is refused. The result therefore does not depend on the order of messages, on the timely renewal
of a lease, or on the delivery of each message. Such faults only cause delay (docs/decisions/leases-with-fencing.md).
"""
