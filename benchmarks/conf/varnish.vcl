vcl 4.1;

# Varnish with its built-in rules, one origin, one key for all names of the host.
backend default {
    .host = "127.0.0.1";
    .port = "@{origin}";
}

sub vcl_backend_response {
    set beresp.grace = 1h;
    set beresp.keep = 1d;
}
