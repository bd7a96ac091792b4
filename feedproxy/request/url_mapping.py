"""Reverse mode's two addresses of one feed: the upstream's, and the public one.

The upstream's is what is fetched, and the name under which everything is stored. The public one is all that readers
know, and what an operator has in mind. They differ by their beginning alone: `upstream` in the one, `public_url` in
the other. What is not below `upstream` cannot be asked for through us, and has no public form.
"""

from feedproxy.errors import BadTarget
from feedproxy.http import uri
from feedproxy.settings import Settings


def is_upstream_target(target: str, settings: Settings) -> bool:
    """Return whether a normalised target is at the configured upstream's origin: the operator's own word."""
    return bool(settings.upstream) and uri.origin_of(target) == uri.origin_of(uri.normalise(settings.upstream))


def rebase(target: str, old: str, new: str) -> str | None:
    """Return a normalised target below `old`, at the same place below `new`; None for what is not below it.

    Raises BadTarget where `old` is no address.
    """
    behind = uri.normalise(old).rstrip("/")
    return new.rstrip("/") + target.removeprefix(behind) if target.startswith(behind + "/") else None


def to_public(target: str, settings: Settings) -> str:
    """Return the normalised address under which readers know this target: itself, unless `public_url` says another."""
    target = uri.without_fragment(target)
    if settings.upstream and settings.public_url and (found := rebase(target, settings.upstream, settings.public_url)):
        return uri.normalise(found)
    return target


def to_upstream(address: str, settings: Settings) -> str:
    """Return the target that a normalised address means: the upstream's for a public one, else itself.

    What is below both, as it happens where the one is a folder of the other, is taken for the upstream's.
    """
    if not settings.upstream or not settings.public_url or rebase(address, settings.upstream, "") is not None:
        return address
    found = rebase(address, settings.public_url, settings.upstream)
    return uri.normalise(found) if found is not None else address


def redirect_target(address: str, start: str, settings: Settings) -> str:
    """Return the target that a redirect to `address` means, where the request for `start` came upon it.

    The upstream knows itself by its public address. From the public side that address is what it says.
    """
    return to_upstream(address, settings) if is_upstream_target(start, settings) else address


def displayed_url(address: str, settings: Settings, base: str = "") -> str:
    """Return an address as others are told it: nothing of the upstream's origin is named.

    Its beginning is `public_url`, or without one `base`, our own address as it was asked for. What is at the
    upstream's origin, and not below `upstream`, has no public form: then it is that beginning alone.
    """
    public = settings.public_url or base
    if not settings.upstream or not public:
        return address
    try:
        if not is_upstream_target(normal := uri.normalise(address), settings):
            return address
    except BadTarget:
        return address
    return rebase(normal, settings.upstream, public) or public.rstrip("/") + "/"


def equivalent_urls(target: str, settings: Settings) -> tuple[str, ...]:
    """Return all addresses that mean this target: its own, and the public one where that is another."""
    public = to_public(target, settings)
    return (target,) if public == target else (target, public)
