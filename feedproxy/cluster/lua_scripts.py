"""What is done in Redis in one step, in Lua. Each may be done twice with the same result.

Numbers are microseconds of Redis's clock or later: so a Redis that has lost everything goes on above what it gave out
before. They stay below 2**53, where Lua's numbers are exact; `%.0f` writes them without an exponent.
"""

import hashlib
from dataclasses import dataclass

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

_NEWS = """
local function tell(sequence, log, channel, longest, version, message)
  local number = redis.call('INCR', sequence)
  if number == 1 then
    number = microseconds()
    redis.call('SET', sequence, text(number))
  end
  local said = text(number) .. ' ' .. text(version) .. ' ' .. message
  redis.call('ZADD', log, text(number), said)
  redis.call('ZREMRANGEBYRANK', log, 0, -1 - tonumber(longest))
  redis.call('PUBLISH', channel, said)
  return number
end
"""


@dataclass(frozen=True)
class Script:
    """A script and the hash that Redis knows it by."""

    text: str

    @property
    def sha(self) -> str:
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


LOOK = Script("""
local version = tonumber(redis.call('HGET', KEYS[1], 'f') or '0')
if version <= tonumber(ARGV[1]) then return {string.format('%.0f', version), false} end
return {string.format('%.0f', version), redis.call('HGET', KEYS[1], 'd')}
""")
"""KEYS copy; ARGV the version known. The version there, and the copy where it is later (false: it was purged)."""

TAKE = Script(
    _NUMBERS
    + """
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[3] then return {'0', '0', false} end
local stored = tonumber(redis.call('HGET', KEYS[2], 'f') or '0')
local token = next_token(KEYS[3], stored)
redis.call('SET', KEYS[1], text(token), 'PX', ARGV[1])
if stored <= tonumber(ARGV[2]) then return {text(token), text(stored), false} end
return {text(token), text(stored), redis.call('HGET', KEYS[2], 'd')}
"""
)
"""KEYS lease, copy, fence; ARGV milliseconds, the version known, a token of one's own. The token (0: another has the
lease), the version there, and the copy where it is later."""

RENEW = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
""")
"""KEYS lease; ARGV token, milliseconds."""

RELEASE = Script("""
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 1
""")
"""KEYS lease; ARGV token, channel, message. Compare and delete: who comes late takes nobody else's away."""

PUT = Script(
    _NUMBERS
    + _NEWS
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
tell(KEYS[4], KEYS[5], ARGV[6], ARGV[7], version, ARGV[8])
return {1, text(version)}
"""
)
"""KEYS copy, lease, barrier, sequence, log; ARGV version, copy, token of a lease to release or nothing, token that the
barrier is compared with, milliseconds, channel, length of the log, message. Whether it was taken, and the version
there: what is older than that is refused, and so is what was fetched before everything was purged."""

PURGE = Script(
    _NUMBERS
    + _NEWS
    + """
local stored = tonumber(redis.call('HGET', KEYS[1], 'f') or '0')
local version = tonumber(ARGV[1])
if version == 0 then version = next_token(KEYS[2], stored) end
if version < stored then return text(stored) end
redis.call('HSET', KEYS[1], 'f', text(version))
redis.call('HDEL', KEYS[1], 'd')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
tell(KEYS[3], KEYS[4], ARGV[3], ARGV[4], version, ARGV[5])
return text(version)
"""
)
"""KEYS copy, fence, sequence, log; ARGV version (0: now), milliseconds, channel, length of the log, message. What is
left is the number: what was fetched before comes too late."""

BAR = Script(
    _NUMBERS
    + _NEWS
    + """
local token = next_token(KEYS[2], 0)
redis.call('SET', KEYS[1], text(token))
tell(KEYS[3], KEYS[4], ARGV[1], ARGV[2], token, ARGV[3])
return text(token)
"""
)
"""KEYS barrier, fence, sequence, log; ARGV channel, length of the log, message. What is being fetched comes too
late."""

TELL = Script(
    _NUMBERS
    + _NEWS
    + """
return text(tell(KEYS[1], KEYS[2], ARGV[1], ARGV[2], 0, ARGV[3]))
"""
)
"""KEYS sequence, log; ARGV channel, length of the log, message."""

SHOUT = Script("return redis.call('PUBLISH', ARGV[1], ARGV[2])")
"""ARGV channel, message: for what need not be heard."""

SINCE = Script("""
local now = redis.call('GET', KEYS[1]) or '0'
return {now, redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[1], '+inf')}
""")
"""KEYS sequence, log; ARGV a number. The last number, and all that was said after the one."""

NUMBER = Script("return redis.call('GET', KEYS[1]) or '0'")
"""KEYS sequence."""

VERSION = Script("return {redis.call('HGET', KEYS[1], 'f') or '0', redis.call('HEXISTS', KEYS[1], 'd')}")
"""KEYS copy. Its version, and whether there is more of it than that."""

CLAIM = Script("""
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0
""")
"""KEYS anything; ARGV who, milliseconds. Whether it is his: the first who asks."""

SCAN = Script("""
local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', 500)
return {found[1], found[2]}
""")
"""ARGV cursor, pattern. The next cursor, and keys."""

SEEN = Script("""
local when, longest, life, width = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
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
if redis.call('ZCARD', KEYS[1]) <= longest then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[6])
if redis.call('ZCARD', KEYS[1]) <= longest then return 0 end
local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for at = 1, #all, 2 do add(bucket(tonumber(all[at + 1])), all[at]) end
redis.call('DEL', KEYS[1])
redis.call('SET', crowd, '1', 'PX', life)
return 1
""")
"""KEYS readers; ARGV pseudonym, when, the most that are counted one by one, milliseconds to keep it, milliseconds of a
stretch, the window's begin. A set with instants; when it gets too large, a HyperLogLog for each stretch of time."""

COUNT = Script("""
if redis.call('EXISTS', KEYS[1] .. ':crowd') == 0 then return redis.call('ZCOUNT', KEYS[1], ARGV[1], '+inf') end
local width, names = tonumber(ARGV[3]), {}
for number = math.floor(tonumber(ARGV[1]) / width), math.floor(tonumber(ARGV[2]) / width) do
  names[#names + 1] = KEYS[1] .. ':' .. string.format('%.0f', number)
end
return redis.call('PFCOUNT', unpack(names))
""")
"""KEYS readers; ARGV the window's begin and end, milliseconds of a stretch. How many."""

CLAIMED = Script("""
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
""")
"""KEYS claims; ARGV who and what, how many and when, milliseconds."""

CLAIMS = Script("return redis.call('HGETALL', KEYS[1])")
"""KEYS claims. All of them."""

SCRIPTS = (
    *(LOOK, TAKE, RENEW, RELEASE, PUT, PURGE, BAR, TELL, SHOUT, SINCE, NUMBER, VERSION, CLAIM, SCAN),
    *(SEEN, COUNT, CLAIMED, CLAIMS),
)
