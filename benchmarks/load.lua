-- What wrk asks for, by the environment: the same request (wrk's own, cheapest way), one of many feeds, a feed never
-- seen, or a request with a field unlike any other. At the end one line for load.py to read.
local mode = os.getenv("BENCH_MODE")
local count = tonumber(os.getenv("BENCH_COUNT") or "1")
local number = tonumber(os.getenv("BENCH_START") or "0")
local parts = {}

-- A run may end after a number of responses instead of its time. Counting them makes requests dearer for wrk, so only
-- tests do it.
local remaining = tonumber(os.getenv("BENCH_RESPONSES") or "") or 0
if remaining > 0 then
   function response()
      remaining = remaining - 1
      if remaining == 0 then
         wrk.thread:stop()
      end
   end
end

-- wrk writes the fields in an order of its own in every process; a reader has one and keeps to it.
local function formatted(path)
   local lines = {}
   for name, value in pairs(wrk.headers) do
      table.insert(lines, name .. ": " .. value .. "\r\n")
   end
   table.sort(lines)
   return "GET " .. path .. " HTTP/1.1\r\n" .. table.concat(lines) .. "\r\n"
end

if mode == "many" or mode == "new" or mode == "unlike" then
   function init(args)
      if mode == "many" then
         wrk.format("GET", "/")  -- which adds what wrk says by itself
         for each = 1, count do
            parts[each] = formatted("/feed/" .. each .. ".rss")
         end
      elseif mode == "new" then
         parts = { wrk.format("GET", "/feed/new-@.rss"):match("(.*)@(.*)") }
      else
         wrk.headers["X-Request-Id"] = "@"
         parts = { wrk.format():match("(.*)@(.*)") }
      end
   end

   function request()
      number = number + 1
      if mode == "many" then
         -- A step prime to the count: every feed's turn comes, and neighbours do not follow one another.
         return parts[(number * 7919) % count + 1]
      end
      return parts[1] .. number .. parts[2]
   end
end

function done(summary, latency, requests)
   local e = summary.errors
   io.write(string.format("bench requests=%d microseconds=%d bytes=%d p99=%d connect=%d read=%d write=%d status=%d "
      .. "timeout=%d\n", summary.requests, summary.duration, summary.bytes, latency:percentile(99), e.connect, e.read,
      e.write, e.status, e.timeout))
end
