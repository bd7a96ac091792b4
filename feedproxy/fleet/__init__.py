"""Several machines as one proxy. They share copies, leases, reader counts and events through Redis.

Each machine answers clients from its own store. A miss asks Redis before the origin, and a queue sends new copies to
Redis. Without Redis, each machine continues alone.

Each copy has a fencing token: the token of the lease for its fetch, or a number derived from the time of the fetch.
Every machine and Redis prefer the copy with the higher token. Lost or late messages therefore only cause delay
(docs/decisions/leases-with-fencing.md).
"""
