"""The least cost of an HTTP/2 hit with the `h2` library: its state machine alone, without sockets, TLS or a cache.

    python -m benchmarks.http2 [--requests 5000]

There is one connection, and each request is the same poll of a feed reader. The measured time is that of the server:
parsing the bytes of the request, and making those of the response. The time of the fast path for the same request over
HTTP/1.1, up to its response template, is printed beside it.
"""

import argparse
import time

import h2.config
import h2.connection
import h2.events

CONTENT = b"x" * 12_000

REQUEST = [
    (":method", "GET"),
    (":path", "/https://example.com/feed.xml"),
    (":scheme", "https"),
    (":authority", "proxy.example:8443"),
    ("user-agent", "Reader/2.1"),
    ("accept-encoding", "gzip, br"),
    ("accept", "application/atom+xml, application/rss+xml"),
    ("if-none-match", '"c09d17a3b2f86e4450aa~5a3c90fe-gzip"'),
]

FIELDS = [
    (b"etag", b'"c09d17a3b2f86e4450aa~5a3c90fe-gzip"'),
    (b"date", b"Tue, 24 Nov 2026 06:00:00 GMT"),
    (b"age", b"12"),
    (b"cache-control", b"max-age=300"),
    (b"cache-status", b"feedproxy; hit; ttl=288"),
    (b"vary", b"Accept-Encoding"),
    (b"via", b"1.1 feedproxy-0a1b2c3d"),
]


def cost_of(status: int, requests: int) -> float:
    """Return the CPU time in microseconds of one request that is answered with this status."""
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    server = h2.connection.H2Connection(
        h2.config.H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    client.initiate_connection()
    server.initiate_connection()
    server.receive_data(client.data_to_send())
    client.receive_data(server.data_to_send())
    server.receive_data(client.data_to_send())
    head = [(b":status", str(status).encode()), *FIELDS]
    if status != 304:
        head += [
            (b"content-type", b"application/rss+xml"),
            (b"content-encoding", b"gzip"),
            (b"content-length", b"12000"),
        ]
    spent = 0
    for stream in range(1, 2 * requests, 2):
        client.send_headers(stream, REQUEST, end_stream=True)
        received = client.data_to_send()
        started = time.process_time_ns()
        for event in server.receive_data(received):
            if isinstance(event, h2.events.RequestReceived):
                server.send_headers(stream, head, end_stream=status == 304)
                if status != 304:
                    server.send_data(stream, CONTENT, end_stream=True)
        sent = server.data_to_send()
        spent += time.process_time_ns() - started
        for event in client.receive_data(sent):
            if isinstance(event, h2.events.DataReceived):
                client.acknowledge_received_data(event.flow_controlled_length, stream)
        server.receive_data(client.data_to_send())
    return spent / requests / 1000


def main() -> None:
    """Print the cost of a 304, and of a 200 with 12 KB."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http2", description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=5000)
    requests = parser.parse_args().requests
    for status in (304, 200):
        costs = sorted(cost_of(status, requests) for _ in range(3))
        print(f"{status}: {costs[1]:.0f} µs a request, median of 3 ({costs[0]:.0f} to {costs[-1]:.0f})")


if __name__ == "__main__":
    main()
