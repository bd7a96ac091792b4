"""Rules on redirects, permanent moves and feeds that are gone.  RFC 9110, section 15.4; RSS Feed State.

An empty verdict means that the request keeps the rule. None means that the rule does not apply to the request.
"""

from feedproxy.clock import Instant, Seconds
from feedproxy.durations_and_sizes import span
from feedproxy.notes import Category, Level, Note
from feedproxy.scoring.reader_state import ReaderState, RelocationSightings, stays_in_proxy
from feedproxy.scoring.rule_weights import NO_VIOLATIONS, Observation, Verdict, short_target, violation
from feedproxy.scoring.scored_request import REDIRECTS, Poll

SIGHTINGS_MIN = 3
"""A reader has to act on a move, or on the end of a feed, after this many answers with the announcement. It need not
act earlier, because publishers make mistakes."""

HOPS_MAX = 5
"""A reader must follow chains of at most this many redirects. It may give up at a longer chain."""

LOOP_HOPS_MAX = 20
"""A reader should stop after this many redirects of one poll at the latest, as browsers do (Fetch, section 4.4)."""

GONE_CHECK_INTERVAL: Seconds = 6.5 * 86_400
"""A reader may check after this many seconds whether a feed is still gone: a week, minus half a day of tolerance."""


def evaluate(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return the violations of a request. These are violations:

    * The reader followed a redirect loop for too long.
    * The reader did not follow a redirect.
    * The reader did not adopt a permanent move.

    Return None if the request could show none of these violations.
    """
    observations, applies = list[Observation](), False
    previous = state.previous
    if state.follows(poll):
        if len(state.chain) > LOOP_HOPS_MAX:
            repetition = " again" if state.is_in_loop else ""
            reason = f"redirect {len(state.chain)} of this poll led to {short_target(poll.target)}{repetition}"
            return violation(REDIRECT_LOOP_FOLLOWED, reason)
        return NO_VIOLATIONS
    if (
        previous is not None
        and previous.status in REDIRECTS
        and _is_observable(previous, state)
        and len(state.chain) <= HOPS_MAX
        and not state.is_in_loop
    ):
        applies = True
        observations.append(
            Observation(
                REDIRECT_NOT_FOLLOWED,
                f"the previous answer was {previous.status} to {short_target(state.redirect_target)}",
            )
        )
    moved = state.permanent.get(poll.target)
    if moved is not None and moved.count >= SIGHTINGS_MIN and not _may_be_revoked(poll, state):
        kind = XML_REDIRECT_IGNORED if moved.xml else PERMANENT_MOVE_IGNORED
        observations.append(
            Observation(
                kind,
                f"{short_target(moved.location)} was announced by {moved.count} answers, "
                f"first {span(poll.at - moved.first)} ago",
            )
        )
    elif moved is None and any(move.location == poll.target for move in state.permanent.values()):
        applies = True
    return tuple(observations) if observations or applies else None


def evaluate_temporary(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return a violation if the reader requests the target of a temporary redirect directly. Return None if there was
    no temporary redirect, or if the request cannot show the violation."""
    if state.follows(poll) or not state.temporary:
        return None
    is_permanent = any(move.location == poll.target for move in state.permanent.values())
    if state.partial and poll.target not in state.direct_addresses:
        return None  # another worker may have sent the redirect
    if poll.target in state.temporary and poll.target not in state.direct_addresses and not is_permanent:
        return violation(TEMPORARY_MOVE_ADOPTED, f"{short_target(poll.target)} was requested directly")
    return NO_VIOLATIONS if poll.target in state.direct_addresses else None


def evaluate_ended(poll: Poll, state: ReaderState) -> Verdict | None:
    """Return a violation if a request comes less than GONE_CHECK_INTERVAL seconds after the last answer that declared
    the feed gone.

    Return None if fewer than SIGHTINGS_MIN answers have declared the feed gone, or if another worker may have answered
    with the feed since then.
    """
    gone = state.gone
    if gone is None or gone.count < SIGHTINGS_MIN or _may_be_revoked(poll, state):
        return None
    if poll.at - gone.last >= GONE_CHECK_INTERVAL:
        return NO_VIOLATIONS
    kind = XML_GONE_IGNORED if gone.xml else GONE_IGNORED
    return violation(kind, f"{gone.count} answers announced the end, the first {span(poll.at - gone.first)} ago")


def describe_adoptions(state: ReaderState, target: str) -> str:
    """Return a text that says after how many answers the reader adopted the moves to `target`, or "" if there was no
    such move."""
    return "; ".join(_describe_adoption(move) for move in state.permanent.values() if move.location == target)


def _describe_adoption(sightings: RelocationSightings) -> str:
    answers = (
        "one answer"
        if sightings.count == 1
        else f"{sightings.count} answers in {span(sightings.last - sightings.first)}"
    )
    return f"{short_target(sightings.location)} after {answers}"


def is_left_alone(ended: Instant | None, now: Instant) -> bool:
    """Return True if the reader has not requested a gone feed for a day. `ended` is the time of the last answer that
    declared the feed gone. If it is None, the feed is not gone: return False."""
    return ended is not None and now - ended >= 86_400


def _is_observable(redirect: Poll, state: ReaderState) -> bool:
    """Return True if this worker would get a request that follows the redirect."""
    return not state.partial and stays_in_proxy(redirect)


def _may_be_revoked(poll: Poll, state: ReaderState) -> bool:
    """Return True if another worker can have answered with the feed later. Such an answer revokes a move or an end."""
    return state.partial and poll.is_success


class REDIRECT_NOT_FOLLOWED(Note, level=Level.BAD, category=Category.MOVES):
    summary = "%(times)s came after a redirect that the reader had not followed."
    advice = """\
    Follow 301, 302, 303, 307 and 308, at least five in a row, with the same conditional fields. The target of the
    last redirect is the feed."""
    reference = "RFC 9110, section 15.4"


class REDIRECT_LOOP_FOLLOWED(Note, level=Level.BAD, category=Category.MOVES):
    summary = "%(times)s came after more than twenty redirects in one poll."
    advice = """\
    Remember the addresses of a poll, and stop at the first that comes again, or after twenty redirects. Treat this as
    a failure: keep the copy, and poll at the usual time."""
    reference = "RFC 9110, section 15.4; Fetch, section 4.4"


class PERMANENT_MOVE_IGNORED(Note, level=Level.WARN, category=Category.MOVES):
    summary = "%(times)s went to the old address after three or more answers had announced a permanent move."
    advice = """\
    301 and 308 ask the reader to change the subscription. Adopt the new address at once or after a few such answers.
    Until then every poll costs two requests, and the redirect can end one day."""
    reference = "RFC 9110, sections 15.4.2 and 15.4.9"


class XML_REDIRECT_IGNORED(Note, level=Level.WARN, category=Category.MOVES):
    summary = "%(times)s went to an address that had answered three times or more with a redirect document."
    advice = """\
    Publishers that cannot set a status write `<redirect><newLocation>`. The document means the same as a 301: change
    the subscription."""
    reference = "RSS Feed State, redirects"


class PERMANENT_MOVES_ADOPTED(Note, level=Level.GOOD, category=Category.MOVES):
    summary = "The reader follows redirects and adopts permanent ones."
    advice = "%(times)s followed a redirect or went to the adopted address. %(example)s"
    reference = "RFC 9110, section 15.4"


class TEMPORARY_MOVE_ADOPTED(Note, level=Level.BAD, category=Category.MOVES):
    summary = "%(times)s went directly to the target of a temporary redirect."
    advice = """\
    302, 303 and 307 do not change the subscription. Follow them, and request the old address in the next poll."""
    reference = "RFC 9110, sections 15.4.3 and 15.4.8"


class ADDRESS_KEPT(Note, level=Level.GOOD, category=Category.MOVES):
    summary = "Temporary redirects did not change the subscription."
    advice = "%(times)s went to the old address again."
    reference = "RFC 9110, section 15.4.3"


class GONE_IGNORED(Note, level=Level.BAD, category=Category.MOVES):
    summary = "%(times)s came for a feed that three or more answers had declared gone (410)."
    advice = """\
    Tell the user that the feed has ended, and stop polling it. A check once a week or month is fine, in case the 410
    was a mistake."""
    reference = "RFC 9110, section 15.5.11"


class XML_GONE_IGNORED(Note, level=Level.BAD, category=Category.MOVES):
    summary = "%(times)s came for a feed that three or more documents had declared gone."
    advice = """\
    In RSS Feed State, a redirect document without a new address means the same as status 410. Tell the user, and
    stop polling."""
    reference = "RSS Feed State, redirects"


class ENDINGS_OBEYED(Note, level=Level.GOOD, category=Category.MOVES):
    summary = "The reader stopped polling a feed that is gone."
    advice = "After the end was announced, no request came, or at most one a week."
    reference = "RFC 9110, section 15.5.11"
