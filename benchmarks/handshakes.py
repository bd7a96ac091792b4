"""TLS handshakes, each with one request: `python -m benchmarks.handshakes PORT PATH SECONDS FIELD…`.

wrk resumes its TLS sessions, but a reader that polls once an hour has no session to resume. Here, each handshake is a
full handshake.
"""

import socket
import ssl
import sys
import time
from concurrent.futures import ThreadPoolExecutor

AT_ONCE = 8


def ask(port: int, context: ssl.SSLContext, request: bytes) -> int:
    """Send one request over a new connection. Return the size of the response in bytes. Raises OSError."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="feeds.example") as sock,
    ):
        sock.sendall(request)
        return sum(map(len, iter(lambda: sock.recv(65_536), b"")))


def keep_asking(port: int, context: ssl.SSLContext, request: bytes, until: float) -> tuple[int, int, int]:
    """Send requests until `until`. Return the numbers of responses, bytes and errors."""
    answers = size = errors = 0
    while time.monotonic() < until:
        try:
            got = ask(port, context, request)
        except OSError:
            got = 0
        if got:
            answers, size = answers + 1, size + got
        else:
            errors += 1
    return answers, size, errors


def main(port: int, path: str, seconds: int, fields: list[str]) -> None:
    """Send requests from several threads at once. TLS itself runs outside Python's interpreter lock."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = "\r\n".join([f"GET {path} HTTP/1.1", *fields, "", ""]).encode()
    started = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = [pool.submit(keep_asking, port, context, request, started + seconds) for _ in range(AT_ONCE)]
        answers, size, errors = map(sum, zip(*(each.result() for each in made), strict=True))
    took = int((time.monotonic() - started) * 1e6)
    print(f"bench requests={answers} microseconds={took} bytes={size} p99=0 connect={errors}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:])
