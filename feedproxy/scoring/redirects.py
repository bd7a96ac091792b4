"""Rules on redirects, moves and ended feeds.  RFC 9110, section 15.4; RSS Feed State."""

from feedproxy.clock import Instant, Seconds
from feedproxy.findings import Category, Level, Note
from feedproxy.scoring.polling_interval import format_duration
from feedproxy.scoring.reader_state import ReaderState, RelocationSightings, stays_in_proxy
from feedproxy.scoring.rules import NO_VIOLATIONS, Observation, Verdict, redact_target
from feedproxy.scoring.scored_request import REDIRECTS, Poll

SIGHTINGS = 3
"""Answers with a permanent move, or with the end of a feed, after which a reader must act; publishers make mistakes."""

HOPS_MAX = 5
"""Redirects in a row that a reader must follow."""

WEEK: Seconds = 6.5 * 86_400
"""Seconds after which a reader may check again whether a feed is still gone; a week, with half a day of tolerance."""


def evaluate(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return violations for a redirect that was not followed and a permanent move that was not adopted."""
    observations, applies = list[Observation](), False
    previous = state.previous
    if state.follows(poll):
        return NO_VIOLATIONS
    if (
        previous is not None
        and previous.status in REDIRECTS
        and _is_observable(previous, state)
        and state.hops < HOPS_MAX
    ):
        applies = True
        observations.append(
            Observation(
                REDIRECT_NOT_FOLLOWED, f"{previous.status} to {redact_target(state.redirect_target)} came before"
            )
        )
    moved = state.permanent.get(poll.target)
    if moved is not None and moved.count >= SIGHTINGS and not _may_be_revoked(poll, state):
        kind = XML_REDIRECT_IGNORED if moved.xml else PERMANENT_MOVE_IGNORED
        observations.append(
            Observation(
                kind,
                f"{redact_target(moved.location)} was told {moved.count} times, "
                f"first {format_duration(poll.at - moved.first)} ago",
            )
        )
    elif moved is None and any(move.location == poll.target for move in state.permanent.values()):
        applies = True
    return tuple(observations) if observations or applies else None


def evaluate_temporary(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return a violation if the target of a temporary redirect is requested directly."""
    if state.follows(poll) or not state.temporary:
        return None
    is_permanent = any(move.location == poll.target for move in state.permanent.values())
    if state.partial and poll.target not in state.direct_addresses:
        return None  # another worker may have redirected the reader to it
    if poll.target in state.temporary and poll.target not in state.direct_addresses and not is_permanent:
        return (Observation(TEMPORARY_MOVE_ADOPTED, f"{redact_target(poll.target)} was asked by itself"),)
    return NO_VIOLATIONS if poll.target in state.direct_addresses else None


def evaluate_ended(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return a violation if a feed that is gone is requested more than once a week."""
    gone = state.gone
    if gone is None or gone.count < SIGHTINGS or _may_be_revoked(poll, state):
        return None
    if poll.at - gone.last >= WEEK:
        return NO_VIOLATIONS
    kind = XML_GONE_IGNORED if gone.xml else GONE_IGNORED
    return (
        Observation(kind, f"the end was told {gone.count} times, first {format_duration(poll.at - gone.first)} ago"),
    )


def describe_adoptions(state: ReaderState, target: str) -> str:
    """Describe after how many answers the moves to `target` were adopted; empty without a move."""
    return "; ".join(_describe_adoption(move) for move in state.permanent.values() if move.location == target)


def _describe_adoption(sightings: RelocationSightings) -> str:
    often = (
        "once"
        if sightings.count == 1
        else f"{sightings.count} times in {format_duration(sightings.last - sightings.first)}"
    )
    return f"{redact_target(sightings.location)} after it was told {often}"


def is_left_alone(ended: Instant | None, now: Instant) -> bool:
    """Return True if the last poll, at `ended`, was answered as gone and is at least a day old."""
    return ended is not None and now - ended >= 86_400


def _is_observable(redirect: Poll, state: ReaderState) -> bool:
    """Return True if a request that follows the redirect would be seen."""
    return not state.partial and stays_in_proxy(redirect)


def _may_be_revoked(poll: Poll, state: ReaderState) -> bool:
    """Return True if another worker may have revoked a move or an end, because the feed is available again."""
    return state.partial and poll.succeeded


class REDIRECT_NOT_FOLLOWED(Note):
    level = Level.BAD
    category = Category.MOVES
    summary = "%(times)s came after a redirect that had not been followed."
    advice = "Follow 301, 302, 303, 307 and 308, five in a row at least, with the same conditions. The feed is there."
    reference = "RFC 9110, section 15.4"


class PERMANENT_MOVE_IGNORED(Note):
    level = Level.WARN
    category = Category.MOVES
    summary = "%(times)s asked the old address, which had said three times or more that it has moved for good."
    advice = """\
    301 and 308 ask for the subscription to be changed. Adopt the new address at once, or when it has been told some
    times; until then every poll costs two requests, and one day the old address is gone."""
    reference = "RFC 9110, sections 15.4.2 and 15.4.9"


class XML_REDIRECT_IGNORED(Note):
    level = Level.WARN
    category = Category.MOVES
    summary = "%(times)s asked an address that had answered three times or more with a redirect document."
    advice = """\
    `<redirect><newLocation>` is what publishers write who cannot set a status. It is to be treated as a 301: change the
    subscription."""
    reference = "RSS Feed State, redirects"


class ADOPTS_MOVES(Note):
    level = Level.GOOD
    category = Category.MOVES
    summary = "Redirects were followed, and lasting ones adopted."
    advice = "%(times)s showed it. %(example)s"
    reference = "RFC 9110, section 15.4"


class TEMPORARY_MOVE_ADOPTED(Note):
    level = Level.BAD
    category = Category.MOVES
    summary = "%(times)s went by itself to an address that had been named for one time only."
    advice = "302, 303 and 307 change nothing: follow them, and ask the old address the next time."
    reference = "RFC 9110, sections 15.4.3 and 15.4.8"


class KEEPS_ADDRESS(Note):
    level = Level.GOOD
    category = Category.MOVES
    summary = "Redirects for one time did not change the subscription."
    advice = "%(times)s went to the old address again."
    reference = "RFC 9110, section 15.4.3"


class GONE_IGNORED(Note):
    level = Level.BAD
    category = Category.MOVES
    summary = "%(times)s asked for a feed that had been told three times or more to have ended (410)."
    advice = "Tell the user, and stop asking. Looking again once a week or month is fine, in case it was a mistake."
    reference = "RFC 9110, section 15.5.11"


class XML_GONE_IGNORED(Note):
    level = Level.BAD
    category = Category.MOVES
    summary = "%(times)s asked for a feed whose document had said three times or more that it has ended."
    advice = (
        "In RSS Feed State, a redirect document without a new address means the same as status 410."
        " Tell the user, and stop asking."
    )
    reference = "RSS Feed State, redirects"


class HEEDS_ENDINGS(Note):
    level = Level.GOOD
    category = Category.MOVES
    summary = "The feed has ended, and is left in peace."
    advice = "Nothing came after the end was told, or once a week at most."
    reference = "RFC 9110, section 15.5.11"
