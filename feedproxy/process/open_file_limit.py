"""The limit of files that this process may open (`ulimit -n`)."""

import resource

from feedproxy.errors import UsageError
from feedproxy.settings import Settings

OTHER_DESCRIPTORS = 1024
"""The process needs this many file descriptors besides those of clients: for the store, connections to origins, helper
processes and body files."""

FILES_MIN = 256
"""The process needs at least this many file descriptors: about 70 for itself, 32 that stay free for the store
(upstream/local_resource_exhaustion.py), and those of clients and origins."""


def raise_open_file_limit(settings: Settings) -> None:
    """Raise this process's limit of open files to the number that `max_connections` needs, or as far as the system
    permits. Raises UsageError if the system permits fewer than FILES_MIN.

    Shells and service managers often set a limit of 1,024, for programs that use select(2).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES_MIN:
        raise UsageError(f"this process may open only {hard} files (ulimit -Hn): expected at least {FILES_MIN}")
    needed = settings.max_connections + OTHER_DESCRIPTORS
    if soft < needed and soft != resource.RLIM_INFINITY:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (needed if hard == resource.RLIM_INFINITY else min(needed, hard), hard)
        )
