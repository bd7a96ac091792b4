"""Division of the scheduled refreshes among the workers of one machine."""

import zlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerOwnership:
    """The feeds of the worker `index` of `size` workers. The CRC-32 of a target determines its worker."""

    index: int
    size: int

    def owns(self, target: str) -> bool:
        """Return True if this worker makes the scheduled refreshes of `target`."""
        return zlib.crc32(target.encode("utf-8", "surrogatepass")) % self.size == self.index
