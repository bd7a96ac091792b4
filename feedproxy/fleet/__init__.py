"""Several machines as one proxy. They share copies, leases, reader counts and events through Redis.

Each machine answers clients from its own store. A miss asks Redis before the origin, and a queue sends new copies to
Redis. Without Redis, each machine continues alone.

Each copy has a fencing token: the token of the lease under which it was fetched or, without a lease, the time of its
fetch in microseconds. Redis and all machines prefer the copy with the higher token. A lost or late message therefore
causes only a delay (docs/decisions/leases-with-fencing.md).
"""
