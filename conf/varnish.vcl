vcl 4.1;

# Varnish in front of feedproxy in reverse mode:   varnishd -f /etc/varnish/feedproxy.vcl -a :80
#
# It keeps each feed as long as the feed's own schedule says (CDN-Cache-Control), and forgets it at once when feedproxy
# tells it to (Surrogate-Key). In feedproxy's configuration:
#
#   state_freshness: true
#   purge_sinks: [http://127.0.0.1:80/]
#   trusted_proxies: [127.0.0.1]
#   public_url: https://www.example.com/
#
# Varnish answers readers with gzip or with nothing. Started with `-p http_gzip_support=off` it keeps br and zstd, too.

import std;

backend default {
    .host = "127.0.0.1";
    .port = "8080";
    # While feedproxy is away, what is held is served on (grace, below).
    .probe = {
        .url = "/-/shortChanges.xml";
        .interval = 5s;
        .timeout = 3s;
        .window = 3;
        .threshold = 2;
        .initial = 2;
    }
}

# Who may purge: the machine that feedproxy runs on, and nobody else.
acl feedproxy {
    "127.0.0.1";
    "::1";
}

sub vcl_recv {
    if (req.method == "PURGE") {
        # client.ip is who is connected: what a field says of him can be forged.
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

    # What clients say of their way here is none of a copy's key, so it may decide nothing: public_url names the address.
    unset req.http.X-Forwarded-Proto;
    unset req.http.X-Forwarded-Host;
    unset req.http.Forwarded;

    # Readers that take only what is new to them (A-IM: feed) get that from feedproxy.
    if (req.method == "GET" && req.http.A-IM) {
        return (pass);
    }

    # A copy past its time stands in while feedproxy is away, and is not served else.
    set req.grace = 1d;
    if (req.restarts == 0 && std.healthy(req.backend_hint)) {
        set req.grace = 0s;
    }
}

sub vcl_backend_error {
    return (abandon);
}

sub vcl_synth {
    # feedproxy has just gone away, and the probe does not know it yet: once more, with a copy past its time.
    if (resp.status == 503 && req.restarts == 0) {
        return (restart);
    }
}

sub vcl_backend_response {
    if (beresp.http.Surrogate-Key && !beresp.uncacheable) {
        if (beresp.http.CDN-Cache-Control ~ "no-store|no-cache|private") {
            # The origin's own word to caches such as this one.
            set beresp.uncacheable = true;
            set beresp.ttl = 2m;
            return (deliver);
        }
        if (beresp.http.CDN-Cache-Control ~ "(^|[ ,])max-age=[0-9]+") {
            # Both count from the origin's answer: what remains is the difference.
            set beresp.ttl = std.duration(
                regsub(beresp.http.CDN-Cache-Control, "^(.*[ ,])?max-age=([0-9]+).*$", "\2") + "s", 0s)
                - std.duration(beresp.http.Age + "s", 0s);
        } elsif (beresp.ttl > 10s) {
            # A copy that stands in for an origin that fails: looked at again soon.
            set beresp.ttl = 10s;
        }
        set beresp.grace = 1d;
    }
}

sub vcl_deliver {
    # Between feedproxy and Varnish alone.
    unset resp.http.CDN-Cache-Control;
    unset resp.http.Surrogate-Key;
}
