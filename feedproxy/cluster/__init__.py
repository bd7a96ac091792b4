"""Several machines as one proxy: copies, leases, reader counts and events that they share through a Redis.

Each machine answers clients from its own memory and disk; hits do not use Redis. A miss asks Redis before the origin,
and a queue sends Redis what is new. Without Redis the local store continues to work.

Every copy has a fencing token: that of the lease it was fetched under, or one derived from the time of the fetch. Of
two copies of a target the one with the higher token is valid, on each machine and in Redis; a lower one is refused. The
result therefore does not depend on the order of messages, on a lease that is renewed in time, or on a message that is
not lost; such faults only cause delay (docs/decisions/leases-with-fencing.md).
"""
