"""Several machines as one proxy. They share copies, leases, reader counts and events through Redis.

Each machine answers clients from its own store. A miss asks Redis before the origin. Without Redis, each machine
continues alone. Each copy has a number, its fencing token. Of two copies, the one with the higher number counts, so a
lost or late message causes only a delay (docs/decisions/leases-with-fencing.md).
"""
