"""Lua scripts. Redis executes each script as one step. Executing a script twice does no harm.

The version of a copy is its fencing token. The *caller's version* is the version of the copy on the calling machine.
Each new token or event number is at least Redis's Unix time in microseconds. A Redis that has lost its data therefore
continues with higher numbers. Lua's numbers are exact up to 2**53.
"""

import hashlib

from msgspec import Struct

_NUMBERS = """
local function text(number) return string.format('%.0f', number) end
local function microseconds()
  local now = redis.call('TIME')
  return tonumber(now[1]) * 1000000 + tonumber(now[2])
end
local function next_token(key, above)
  local token = math.max(redis.call('INCR', key), microseconds(), above + 1)
  redis.call('SET', key, text(token))
  return token
end
"""

_EVENTS = """
local function publish(sequence, log, channel, max_length, version, message)
  local number = redis.call('INCR', sequence)
  if number == 1 then
    number = microseconds()
    redis.call('SET', sequence, text(number))
  end
  local event = text(number) .. ' ' .. text(version) .. ' ' .. message
  redis.call('ZADD', log, text(number), event)
  redis.call('ZREMRANGEBYRANK', log, 0, -1 - tonumber(max_length))
  redis.call('PUBLISH', channel, event)
  return number
end
"""


class Script(Struct, frozen=True):
    """A script, and the hash by which Redis identifies it."""

    text: str

    @property
    def sha(self) -> str:
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


GET_IF_LATER = Script("""
local version = tonumber(redis.call('HGET', KEYS[1], 'f') or '0')
if version <= tonumber(ARGV[1]) then return {string.format('%.0f', version), false} end
return {string.format('%.0f', version), redis.call('HGET', KEYS[1], 'd')}
""")
"""Return two values: the stored version of a copy, or 0 if there is none, and the copy. The copy is false after a
purge, or if the stored version is not later than the caller's. KEYS: copy. ARGV: caller's version."""

ACQUIRE_LEASE = Script(
    _NUMBERS
    + """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[3] then return {'0', '0', false} end
local stored = tonumber(redis.call('HGET', KEYS[2], 'f') or '0')
local token = next_token(KEYS[3], stored)
redis.call('SET', KEYS[1], text(token), 'PX', ARGV[1])
if stored <= tonumber(ARGV[2]) then return {text(token), text(stored), false} end
return {text(token), text(stored), redis.call('HGET', KEYS[2], 'd')}
"""
)
"""Acquire a lease. Return three values: the lease's token, the stored version, and the copy.

The copy is false unless the stored version is later than the caller's. If another machine holds the lease, token and
version are 0.

KEYS: lease, copy, fencing counter. ARGV: duration of the lease in milliseconds, caller's version, token of the lease
that the caller already holds or 0.
"""

RENEW_LEASE = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
""")
"""Renew a lease. Return 1 if the lease still has the caller's token, or 0 if not. KEYS: lease. ARGV: caller's token,
duration of the lease in milliseconds."""

RELEASE_LEASE = Script("""
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 1
""")
"""Release a lease unless another machine has acquired it. Publish the message in both cases. KEYS: lease. ARGV: token,
channel, message."""

PUT_COPY = Script(
    _NUMBERS
    + _EVENTS
    + """
local version = tonumber(ARGV[1])
local stored = tonumber(redis.call('HGET', KEYS[1], 'f') or '0')
local barrier = tonumber(redis.call('GET', KEYS[3]) or '0')
if ARGV[3] ~= '' and redis.call('GET', KEYS[2]) == ARGV[3] then redis.call('DEL', KEYS[2]) end
if version <= stored or tonumber(ARGV[4]) < barrier then
  redis.call('PUBLISH', ARGV[6], '0 ' .. text(stored) .. ' ' .. ARGV[8])
  return {0, text(stored)}
end
redis.call('HSET', KEYS[1], 'f', text(version), 'd', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
publish(KEYS[4], KEYS[5], ARGV[6], ARGV[7], version, ARGV[8])
return {1, text(version)}
"""
)
"""Store a copy. Return two values: 1 if the copy was accepted or 0 if it was refused, and the version that is stored
afterwards.

A copy is refused if the same or a later version is stored, or if its fetch began before the last purge of all targets.

KEYS: copy, lease, barrier, sequence, log. ARGV: version, copy, token of a lease to release or "", token to compare with
the barrier, lifetime of the copy in milliseconds, channel, length of the log, message.
"""

PURGE_COPY = Script(
    _NUMBERS
    + _EVENTS
    + """
local stored = tonumber(redis.call('HGET', KEYS[1], 'f') or '0')
local age = tonumber(ARGV[1])
local version = tonumber(ARGV[6])
if version == 0 then version = age > 0 and microseconds() - age or next_token(KEYS[2], stored) end
if version < stored then return '0' end
if ARGV[6] ~= '0' and version == stored then return text(version) end
redis.call('HSET', KEYS[1], 'f', text(version))
redis.call('HDEL', KEYS[1], 'd')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
publish(KEYS[3], KEYS[4], ARGV[3], ARGV[4], version, ARGV[5])
return text(version)
"""
)
"""Delete a copy, and keep the version of the purge, so that copies of earlier fetches are refused. Return this version.
If the copy was fetched after the purge was requested, keep the copy and return 0.

KEYS: copy, fencing counter, sequence, log. ARGV: microseconds since the purge was requested (0 deletes every copy),
lifetime of the version in milliseconds, channel, length of the log, message, version of a purge that is sent again or
0.
"""

INVALIDATE_ALL = Script(
    _NUMBERS
    + _EVENTS
    + """
local token = next_token(KEYS[2], 0)
redis.call('SET', KEYS[1], text(token))
publish(KEYS[3], KEYS[4], ARGV[1], ARGV[2], token, ARGV[3])
return text(token)
"""
)
"""Make Redis refuse the copies of all fetches that are in progress. KEYS: barrier, fencing counter, sequence, log.
ARGV: channel, length of the log, message."""

PUBLISH = Script(
    _NUMBERS
    + _EVENTS
    + """
return text(publish(KEYS[1], KEYS[2], ARGV[1], ARGV[2], 0, ARGV[3]))
"""
)
"""Publish an event and append it to the log. Return the event's number. KEYS: sequence, log. ARGV: channel, length of
the log, message."""

PUBLISH_UNLOGGED = Script("return redis.call('PUBLISH', ARGV[1], ARGV[2])")
"""Publish an event that can be lost. ARGV: channel, message."""

EVENTS_SINCE = Script("""
local now = redis.call('GET', KEYS[1]) or '0'
return {now, redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[1], '+inf')}
""")
"""Return the number of the last event, and the events after the given number that the log still has. KEYS: sequence,
log. ARGV: given number."""

LAST_EVENT_NUMBER = Script(
    _NUMBERS
    + """
return {redis.call('GET', KEYS[1]) or '0', text(microseconds())}
"""
)
"""Return the number of the last event, and the time of Redis in microseconds. KEYS: sequence."""

COPY_VERSION = Script("return {redis.call('HGET', KEYS[1], 'f') or '0', redis.call('HEXISTS', KEYS[1], 'd')}")
"""Return the version of a copy, or 0 if there is none, and 1 if the copy is stored or 0 if it is not. KEYS: copy."""

CLAIM_CHANGE = Script("""
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0
""")
"""Claim the deliveries of a change for a machine. Return 1 if the machine has the claim, or 0 if another machine has
it. KEYS: claim. ARGV: machine, lifetime of the claim in milliseconds."""

SCAN_COPIES = Script("""
local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', 500)
return {found[1], found[2]}
""")
"""Return the next cursor of a scan, and the keys that one step of the scan has found. ARGV: cursor, pattern."""

RECORD_READER = Script("""
local when, max_length, life, width = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local function bucket(instant) return KEYS[1] .. ':' .. string.format('%.0f', math.floor(instant / width)) end
local function add(name, member)
  redis.call('PFADD', name, member)
  redis.call('PEXPIRE', name, life)
end
local crowd = KEYS[1] .. ':crowd'
if redis.call('EXISTS', crowd) == 1 then
  add(bucket(when), ARGV[1])
  redis.call('PEXPIRE', crowd, life)
  return 1
end
redis.call('ZADD', KEYS[1], 'GT', ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], life)
if redis.call('ZCARD', KEYS[1]) <= max_length then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[6])
if redis.call('ZCARD', KEYS[1]) <= max_length then return 0 end
local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for at = 1, #all, 2 do add(bucket(tonumber(all[at + 1])), all[at]) end
redis.call('DEL', KEYS[1])
redis.call('SET', crowd, '1', 'PX', life)
return 1
""")
"""Record a reader of a feed.

The readers are a sorted set with the instants of their last requests. A set with more readers than a maximum is
replaced by HyperLogLogs, one for each part of the window.

KEYS: readers. ARGV: pseudonym, instant, largest number of exactly counted readers, lifetime of the keys, length of each
part of the window, beginning of the window. Instants and lengths are in milliseconds.
"""

COUNT_READERS = Script("""
if redis.call('EXISTS', KEYS[1] .. ':crowd') == 0 then return redis.call('ZCOUNT', KEYS[1], ARGV[1], '+inf') end
local width, names = tonumber(ARGV[3]), {}
for number = math.floor(tonumber(ARGV[1]) / width), math.floor(tonumber(ARGV[2]) / width) do
  names[#names + 1] = KEYS[1] .. ':' .. string.format('%.0f', number)
end
return redis.call('PFCOUNT', unpack(names))
""")
"""Return the number of readers of a feed. KEYS: readers. ARGV: beginning of the window, end of the window, and length
of each of its parts, in milliseconds."""

RECORD_CLAIM = Script("""
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
""")
"""Record the number of subscribers that a service claims for a feed. KEYS: claims. ARGV: service with feed id and
machine, number with instant, lifetime of the key in milliseconds."""

GET_CLAIMS = Script("return redis.call('HGETALL', KEYS[1])")
"""Return all claims for a feed. KEYS: claims."""

DATA_ID = Script("""
local id = redis.call('GET', KEYS[1])
if id then return id end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
""")
"""Return the identifier of the data in Redis. New data without an identifier gets the proposed one. KEYS: data id.
ARGV: proposed identifier."""

RESTORE_STATE = Script("""
for at = 1, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[at], ARGV[at + 1]) end
return 1
""")
"""Store those values of the shared state that Redis does not have. KEYS: shared state. ARGV: each name, and its
value."""

SCRIPTS = tuple(value for value in globals().values() if isinstance(value, Script))
