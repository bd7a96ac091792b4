vcl 4.1;

# Varnish in front of feedproxy in reverse mode:   varnishd -f /etc/varnish/feedproxy.vcl -a :80
#
# Varnish stores each feed for the time that the feed's own schedule states (CDN-Cache-Control). It discards a feed at once
# when feedproxy purges it (Surrogate-Key). In feedproxy's configuration:
#
#   state_freshness: true
#   purge_sinks: [http://127.0.0.1:80/]
#   trusted_proxies: [127.0.0.1]
#   public_url: https://www.example.com/
#
# By default, Varnish sends feeds in gzip or without a coding. With `-p http_gzip_support=off`, it also stores and sends br
# and zstd.

import std;

backend default {
    .host = "127.0.0.1";
    .port = "8080";
    # While feedproxy does not answer this probe, Varnish serves stale copies (grace, below).
    .probe = {
        .url = "/-/shortChanges.xml";
        .interval = 5s;
        .timeout = 3s;
        .window = 3;
        .threshold = 2;
        .initial = 2;
    }
}

# Only the machine on which feedproxy runs may purge.
acl feedproxy {
    "127.0.0.1";
    "::1";
}

sub vcl_recv {
    if (req.method == "PURGE") {
        # client.ip is the address of the connection. A client could forge an address in a field.
        if (client.ip !~ feedproxy) {
            return (synth(403, "Not from here"));
        }
        if (req.http.Surrogate-Key !~ "^[A-Za-z0-9_-]+$") {
            return (synth(400, "Surrogate-Key wanted"));
        }
        if (!std.ban("obj.http.Surrogate-Key ~ (^|\s)" + req.http.Surrogate-Key + "(\s|$)")) {
            return (synth(500, std.ban_error()));
        }
        return (synth(200, "Purged"));
    }

    # These fields are not part of the cache key, so they must not change an answer. public_url sets the public address.
    unset req.http.X-Forwarded-Proto;
    unset req.http.X-Forwarded-Host;
    unset req.http.Forwarded;

    # feedproxy answers requests for new items only (A-IM: feed).
    if (req.method == "GET" && req.http.A-IM) {
        return (pass);
    }

    # Varnish serves a stale copy only while feedproxy does not answer the probe.
    set req.grace = 1d;
    if (req.restarts == 0 && std.healthy(req.backend_hint)) {
        set req.grace = 0s;
    }
}

sub vcl_backend_error {
    return (abandon);
}

sub vcl_synth {
    # feedproxy has stopped, and the probe has not noticed it yet. Restart the request, which permits a stale copy.
    if (resp.status == 503 && req.restarts == 0) {
        return (restart);
    }
}

sub vcl_backend_response {
    if (beresp.http.Surrogate-Key && !beresp.uncacheable) {
        if (beresp.http.CDN-Cache-Control ~ "no-store|no-cache|private") {
            # The origin forbids caches of its own network to store this response.
            set beresp.uncacheable = true;
            set beresp.ttl = 2m;
            return (deliver);
        }
        if (beresp.http.CDN-Cache-Control ~ "(^|[ ,])max-age=[0-9]+") {
            # max-age and Age both begin at the origin's response. The remaining lifetime is the difference.
            set beresp.ttl = std.duration(
                regsub(beresp.http.CDN-Cache-Control, "^(.*[ ,])?max-age=([0-9]+).*$", "\2") + "s", 0s)
                - std.duration(beresp.http.Age + "s", 0s);
        } elsif (beresp.ttl > 10s) {
            # Without max-age, feedproxy has sent a stale copy because the origin fails. Request the feed again after 10 s.
            set beresp.ttl = 10s;
        }
        set beresp.grace = 1d;
    }
}

sub vcl_deliver {
    # These fields are only for Varnish.
    unset resp.http.CDN-Cache-Control;
    unset resp.http.Surrogate-Key;
}
