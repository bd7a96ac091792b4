"""A connection between two machines that counts its bytes."""

import contextlib
import socket
import threading
from typing import Self
from urllib.parse import urlsplit


class Line:
    """Copies bytes from a free port to `destination`, which may be set later."""

    def __init__(self) -> None:
        self.destination = ""
        self.received = 0
        """Bytes that the destination sent."""
        self.sent = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            address = urlsplit(self.destination)
            server = socket.create_connection((address.hostname or "", address.port or 0))
            threading.Thread(target=self._carry, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client, False), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, is_request: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                with self._lock:
                    if is_request:
                        self.sent += len(data)
                    else:
                        self.received += len(data)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
