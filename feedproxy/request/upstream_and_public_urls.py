"""Mapping between the addresses of a feed: at the upstream, in public, and as a client requests it.

In reverse mode, a feed is stored under its address below `upstream`. Clients and operators use its address below
`public_url`. An address that is not below `upstream` has no public form, and clients cannot request it.
"""

from functools import lru_cache
from typing import Any

from feedproxy.errors import BadTarget
from feedproxy.http import uri
from feedproxy.http.target_uri.gateway_path import gateway_path
from feedproxy.http.target_uri.url_redaction import redact_target
from feedproxy.request.context import ClientContext, Entrance
from feedproxy.settings import Settings


def is_upstream_target(target: str, settings: Settings) -> bool:
    """Return True if a normalised target is at the origin of the option `upstream`."""
    if not settings.upstream:
        return False
    origin = _origin_of(settings.upstream)
    return target.startswith(origin) and target[len(origin) : len(origin) + 1] in ("", "/", "?", "#")


@lru_cache(maxsize=16)
def _origin_of(upstream: str) -> str:
    return uri.origin_of(uri.normalise(upstream))


def rebase(target: str, old: str, new: str) -> str | None:
    """Return a normalised target with its prefix `old` replaced by `new`, or None if it is not below `old`. Raises
    BadTarget if `old` is invalid."""
    old_base = uri.normalise(old).rstrip("/")
    return new.rstrip("/") + target.removeprefix(old_base) if target.startswith(old_base + "/") else None


def to_public(target: str, settings: Settings) -> str:
    """Return the normalised public address of a target without its fragment, or the target itself if it has no public
    address."""
    target = uri.without_fragment(target)
    if settings.upstream and settings.public_url and (public := rebase(target, settings.upstream, settings.public_url)):
        return uri.normalise(public)
    return target


def public_name(target: str, settings: Settings) -> dict[str, Any]:
    """Return the addresses of a target without secrets: its public address as `target`, and its address at the upstream
    as `upstream`. If the two are equal, `upstream` is left out."""
    public = to_public(target, settings)
    return {"target": redact_target(public)} | ({"upstream": redact_target(target)} if public != target else {})


def to_upstream(address: str, settings: Settings) -> str:
    """Return the target under which a normalised address is fetched and stored.

    For an address below `public_url`, the target is the corresponding address below `upstream`. Any other address is
    its own target. An address below both `public_url` and `upstream` is also its own target.
    """
    if not settings.upstream or not settings.public_url or rebase(address, settings.upstream, "") is not None:
        return address
    target = rebase(address, settings.public_url, settings.upstream)
    return uri.normalise(target) if target is not None else address


def redirect_target(address: str, start: str, settings: Settings) -> str:
    """Return the URL to fetch after a redirect from `start` to `address`: the URL below `upstream` if `start` is at the
    upstream's origin and `address` is a public address, otherwise `address`."""
    return to_upstream(address, settings) if is_upstream_target(start, settings) else address


def displayed_url(address: str, settings: Settings, base: str = "") -> str:
    """Return an address for publication, without the upstream's origin.

    In an address below `upstream`, the public base replaces `upstream`. The public base is `public_url` or, if this is
    not set, `base` (the proxy's address in the request). Any other address at the upstream's origin becomes the public
    base. An address at another origin is unchanged. Without `upstream` or a public base, every address is unchanged.
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
    """Return all addresses of a target: the target itself, and its public address if the two differ."""
    public = to_public(target, settings)
    return (target,) if public == target else (target, public)


def rewrite_location(
    location: str, client: ClientContext, *, target: str, upstream: str, content_target: str = ""
) -> str:
    """Return a Location or Content-Location with which the client stays in its entrance. The fragment is kept.

    `upstream` is the value of this option. A relative reference is relative to `content_target` or, if it is "", to
    `target`. The reference is unchanged in two cases: its scheme is not http or https, or it is relative and means the
    same at the address that the client requested (RFC 9110, section 10.2.2).
    """
    try:
        absolute = uri.resolve(content_target or target, location)
        if client.entrance is Entrance.GATEWAY:
            return client.base + gateway_path(absolute) + uri.fragment_of(location)
        public = _public_url(absolute, client, upstream)
        as_read = uri.resolve(public_url_for(target, client, upstream=upstream), location)
        is_unchanged = public is None or as_read == uri.normalise(public)
        return location if is_unchanged else f"{public}{uri.fragment_of(location)}"
    except BadTarget:
        return location


def rewrite_link(reference: str, client: ClientContext, *, target: str, upstream: str, content_target: str = "") -> str:
    """Return the reference of a Link in a form that means the same for the client. In the gateway, this is the absolute
    address at the origin, or `reference` if it is invalid. In reverse mode, it is the result of `rewrite_location`,
    which has the same arguments."""
    if client.entrance is not Entrance.GATEWAY:
        return rewrite_location(reference, client, target=target, upstream=upstream, content_target=content_target)
    if uri.is_absolute(reference):
        return reference
    try:
        return uri.resolve(content_target or target, reference) + uri.fragment_of(reference)
    except BadTarget:
        return reference


def public_url_for(target: str, client: ClientContext, *, upstream: str) -> str:
    """Return the URL of a target for this client: the public address in reverse mode (option `upstream`), otherwise
    the target itself."""
    return _public_url(target, client, upstream) or target


def _public_url(target: str, client: ClientContext, upstream: str) -> str | None:
    if client.entrance is not Entrance.REVERSE or not upstream:
        return None
    return rebase(target, upstream, client.base)


def endpoint_address(settings: Settings, path: str) -> str:
    """Return the public address of an endpoint, or "" if `public_url` is not set. `path` is the endpoint's path after
    the prefix."""
    if not settings.public_url:
        return ""
    return settings.public_url.rstrip("/") + settings.endpoint_prefix + path


def listener_url(settings: Settings, host: str, port: int) -> str:
    """Return the URL of a listener for clients."""
    return f"{'https' if settings.tls_certificate else 'http'}://{uri.join_host_port(host, port)}"
