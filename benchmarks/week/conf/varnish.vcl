# A cache in front of feeds as a good operator has it. Varnish asks for gzip, stores it, and unpacks it for who takes
# none; it revalidates within `keep`, and answers with the old copy within `grace` while it does.
vcl 4.1;

backend origin {
    .host = "127.0.0.1";
    .port = "@{origin}";
}

sub vcl_backend_response {
    @{fixed}set beresp.ttl = @{ttl}s;
    @{fixed}unset beresp.http.Cache-Control;
    if (beresp.status >= 500 || beresp.status == 429) {
        if (bereq.is_bgfetch) {
            return (abandon);
        }
        set beresp.uncacheable = true;
        set beresp.ttl = 10s;
        return (deliver);
    }
    set beresp.grace = 24h;
    set beresp.keep = 7d;
    @{fixed}return (deliver);
}

sub vcl_deliver {
    if (obj.hits > 0 && !obj.uncacheable) {
        if (obj.ttl <= 0s) {
            set resp.http.X-Cache = "STALE";
        } else {
            set resp.http.X-Cache = "HIT";
        }
    } else {
        set resp.http.X-Cache = "MISS";
    }
}
