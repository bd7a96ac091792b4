vcl 4.1;

# Varnish with its built-in rules. Stale objects are kept a while, so that there is something to revalidate.
backend default {
    .host = "127.0.0.1";
    .port = "@{origin}";
}

sub vcl_backend_response {
    set beresp.keep = 10m;
}
