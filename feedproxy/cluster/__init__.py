"""Several machines as one proxy: copies, leases, counts and news that they share through a Redis.

What a machine has of its own (memory and disk) stands in front and is what readers are answered from; nothing here is
on the way of a hit. Redis is asked by who would else ask an origin, and is told, from a queue, what is new. What the
local store has is always of use without it.

Every copy has a number, its fence: that of the lease it was fetched under, or one that follows from when it was
fetched. Of two copies of one target the one with the higher number is right, on each machine and in Redis; what comes
with a lower one is refused there. So nothing here depends on the order in which things arrive, on a lease that is kept
in time, or on a message that is not lost: it only takes a little longer without
(docs/decisions/leases-with-fencing.md).
"""
