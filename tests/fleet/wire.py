"""A connection to Redis that can be interrupted: a small TCP proxy in its own threads."""

import contextlib
import selectors
import socket
import threading
from pathlib import Path
from typing import Self


class Wire:
    """Copies bytes from a free port to a Unix socket.

    `stall` keeps connections and copies nothing. `drop` closes them and accepts no others. `mend` ends both.
    """

    def __init__(self, socket_path: Path) -> None:
        self._path = str(socket_path)
        self._flows = threading.Event()
        self._flows.set()
        self._dropped = False
        self._ends: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def stall(self) -> None:
        self._flows.clear()

    def drop(self) -> None:
        self._dropped = True
        self._cut()

    def mend(self) -> None:
        self._dropped = False
        # Data sent before the stall must not arrive minutes later.
        if not self._flows.is_set():
            self._cut()
            self._flows.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._flows.set()
        self._listener.close()
        self._cut()

    def _cut(self) -> None:
        with self._lock:
            for end in self._ends:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            if self._dropped:
                here.close()
                continue
            threading.Thread(target=self._carry, args=(here,), daemon=True).start()

    def _carry(self, here: socket.socket) -> None:
        there = socket.socket(socket.AF_UNIX)
        try:
            there.connect(self._path)
        except OSError:
            here.close()
            there.close()
            return
        with self._lock:
            self._ends |= {here, there}
        others = {here: there, there: here}
        with selectors.DefaultSelector() as selector, contextlib.suppress(OSError):
            for end in others:
                selector.register(end, selectors.EVENT_READ)
            carries = True
            while carries:
                for key, _ in selector.select():
                    ready = key.fileobj
                    assert isinstance(ready, socket.socket)
                    data = ready.recv(65_536)
                    self._flows.wait()
                    if not data:
                        carries = False
                        break
                    others[ready].sendall(data)
        with self._lock:
            self._ends -= {here, there}
        here.close()
        there.close()
