"""The modes of mitmproxy in which feedproxy finds the targets of requests.

`feedproxy serve` sets the mode itself. Under mitmdump, the operator sets it (`--mode`).
"""

from collections.abc import Sequence

from feedproxy.errors import UsageError
from feedproxy.settings import Settings

_SUPPORTED = frozenset({"regular", "dns", "front", "frontreverse"})
"""Names of the supported modes, except `reverse`. `dns` carries no HTTP. `front` and `frontreverse` are feedproxy's own
(`server/fastpath/mitmproxy_modes.py`)."""


def check_modes(modes: Sequence[str], settings: Settings) -> None:
    """Raise UsageError for a mode that feedproxy does not support.

    In such a mode, each request would count as a request to the gateway and get 404. In the mode `upstream`, mitmproxy
    would fail.
    """
    for mode in modes:
        kind = mode.partition("@")[0].partition(":")[0]
        if kind == "upstream":
            raise UsageError(f"{mode} is not supported: expected the option upstream_proxy for a parent proxy")
        if kind not in _SUPPORTED and not (kind == "reverse" and settings.upstream):
            expected = "regular, or reverse:URL together with the option upstream"
            raise UsageError(f"{mode} is not supported: expected {expected}")
