"""Files in memory with large bodies that are requested often. The kernel sends a file without a copy (sendfile).

Copying a body of 60 KB into the socket takes a fifth of the time of a hit (benchmark row "60 KB identity keep-alive").
"""

import contextlib
import os

BODY_MIN = 32_768
"""Only a body of at least this many bytes gets a file. At 12 KB, sendfile takes as long as a copy."""

REQUESTS_MIN = 8
"""A body gets a file after at least this many requests for it within a second. Making the file takes as long as three
hits."""

SIZE_MAX = 4 * 1024 * 1024
"""All files together have at most this many bytes. With BODY_MIN, the number of descriptors is at most 128."""


class BodyFiles:
    """The files of bodies of at least BODY_MIN bytes that are requested often (REQUESTS_MIN)."""

    def __init__(self) -> None:
        self.size = 0
        self._files: dict[int, tuple[bytes, int]] = {}
        """Each body and its file descriptor, by the id of the body."""
        self._requests: dict[int, int] = {}
        """Requests since the last call of `close_unused`, by the id of the body."""

    def descriptor(self, body: bytes) -> int | None:
        """Count a request for a body. Return the descriptor of its file, which is made at the request REQUESTS_MIN, or
        None if there is no file."""
        key = id(body)
        count = self._requests[key] = self._requests.get(key, 0) + 1
        file = self._files.get(key)
        if file is not None:
            return file[1]
        return self._create(body) if count >= REQUESTS_MIN and self.size + len(body) <= SIZE_MAX else None

    def _create(self, body: bytes) -> int | None:
        try:
            descriptor = os.memfd_create("body")
        except (AttributeError, OSError):  # a Python for older systems lacks the function, or no descriptor is free
            return None
        with contextlib.suppress(OSError):  # no memory
            if os.write(descriptor, body) == len(body):
                self._files[id(body)] = (body, descriptor)
                self.size += len(body)
                return descriptor
        os.close(descriptor)
        return None

    def close_unused(self) -> None:
        """Close the files that no request has used since the previous call of this method."""
        for key in self._files.keys() - self._requests.keys():
            body, descriptor = self._files.pop(key)
            self.size -= len(body)
            os.close(descriptor)
        self._requests.clear()

    def close(self) -> None:
        """Close all files."""
        self._requests.clear()
        self.close_unused()
