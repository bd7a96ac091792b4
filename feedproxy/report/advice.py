"""What an operator can do about a feed that is not as it should be, in a sentence or two."""

from feedproxy.cache.status import Detail
from feedproxy.report.condition import State
from feedproxy.settings import Settings
from feedproxy.store.resource import Ending, Resource

_FAILING = {
    Detail.UNREACHABLE: "Open the address in a browser. If it opens there, look at this machine's network and name "
    "service; if the site is gone for good, tell its readers.",
    Detail.TIMEOUT: "The publisher's server is slow or overloaded; it is asked ever more seldom meanwhile. If it "
    "always takes so long, a higher fetch_timeout helps.",
    Detail.ERROR_STATUS: "The publisher's server is broken. Nothing is to be done here; he may like to be told.",
    Detail.RATE_LIMITED: "The site wants to be asked more seldom, and is. A rule with a higher site_interval or "
    "feed_min_interval keeps it from happening again.",
    Detail.REFUSED: "Open the address in a browser. If it is gone, tell its readers; if only programs are refused, a "
    "contact_url lets the publisher see who asks.",
    Detail.CHALLENGE: "The site asks for people where it has a feed. Only its publisher can let feed readers through: "
    "tell him the path.",
    Detail.HTML_WHERE_FEED: "The feed may have another address by now, which `feedproxy discover` "
    "finds if the page names it.",
    Detail.ILL_FORMED: "`feedproxy check` says what is wrong with it, for the publisher. If it stays so, the new form "
    "is taken after some hours.",
    Detail.NEW_SHAPE: "It is taken when it was seen three times over six hours. To take it at once: forget the copy.",
    Detail.TRUNCATED: "The publisher's server breaks off. It mostly passes; if not, he may like to be told.",
    Detail.EMPTY: "The publisher's server sends nothing. It mostly passes; if not, he may like to be told.",
    Detail.UNDECODABLE: "The publisher's server labels its compression wrongly: `feedproxy check` says how.",
    Detail.TOO_LARGE: "The feed has outgrown what is allowed: raise buffer_max if it is worth it.",
    Detail.REDIRECT_LOOP: "The site's redirects are set up wrongly. Open the address in a browser, and tell the "
    "publisher if it fails there, too.",
    Detail.FORBIDDEN_ADDRESS: "The address leads into a network that strangers may not reach from here: "
    "allow_networks, if it is yours.",
}
_OTHERWISE = "It is tried again by itself, ever more seldom. If it stays so, open the address in a browser."

_READERS = "Readers that follow redirects change by themselves; who still asks here wants to be told the new address."


def advice(resource: Resource, state: State, settings: Settings) -> str:
    """What to do about this feed; nothing where all is well."""
    match state:
        case State.FAILING:
            return next((text for token, text in _FAILING.items() if token == resource.failures.detail), _OTHERWISE)
        case State.MOVED | State.GONE if settings.moved_to or settings.gone:
            return "A rule of the configuration says so: it is undone there (feeds:)."
        case State.MOVED:
            return f"{_READERS} If the move is wrong, undo it."
        case State.GONE:
            return "Readers should drop it. If the end is wrong, undo it: the origin is then asked again."
        case State.UNSTORED:
            return "Every reader costs the origin a request. Only the publisher can change that, in Cache-Control."
    sighting = resource.sighting
    if sighting is not None and not sighting.confirmed:
        what = "a new address" if sighting.ending is Ending.MOVED else "an end"
        return f"The origin has told of {what}. Nothing is to be done: it is believed when it was told again."
    return ""
