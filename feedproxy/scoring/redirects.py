"""Does the reader go where the feed went, and stop where it ended?  RFC 9110, section 15.4; RSS Feed State."""

from feedproxy.clock import Instant, Seconds
from feedproxy.findings import Category, Level, Note
from feedproxy.scoring.polling_interval import span
from feedproxy.scoring.reader_state import ReaderState, RelocationSightings, stays_in_proxy
from feedproxy.scoring.rules import KEPT, Observation, Verdict, redact_target
from feedproxy.scoring.scored_request import REDIRECTS, Poll

SIGHTINGS = 3
"""How often a reader may see a move, or an end, before it believes it: mistakes are taken back, too."""

HOPS = 5
"""Redirects in a row that a reader has to follow."""

WEEK: Seconds = 6.5 * 86_400
"""Whoever looks once a week whether an end was a mistake, obeys."""


def evaluate(poll: Poll, known: ReaderState) -> Verdict | None:
    """Whether redirects are followed, and lasting ones adopted."""
    said, had_a_say = list[Observation](), False
    before = known.previous
    if known.follows(poll):
        return KEPT
    if before is not None and before.status in REDIRECTS and _is_observable(before, known) and known.hops < HOPS:
        had_a_say = True
        said.append(
            Observation(REDIRECT_NOT_FOLLOWED, f"{before.status} to {redact_target(known.expected)} came before")
        )
    moved = known.permanent.get(poll.target)
    if moved is not None and moved.count >= SIGHTINGS and not _may_be_over(poll, known):
        kind = XML_REDIRECT_IGNORED if moved.xml else PERMANENT_MOVE_IGNORED
        said.append(
            Observation(
                kind,
                f"{redact_target(moved.location)} was told {moved.count} times, "
                f"first {span(poll.at - moved.first)} ago",
            )
        )
    elif moved is None and any(each.location == poll.target for each in known.permanent.values()):
        had_a_say = True
    return tuple(said) if said or had_a_say else None


def evaluate_temporary(poll: Poll, known: ReaderState) -> Verdict | None:
    """Whether a redirect for this time was taken for one for ever."""
    if known.follows(poll) or not known.temporary:
        return None
    lasting = any(each.location == poll.target for each in known.permanent.values())
    if known.partial and poll.target not in known.own:
        return None  # another may have led there
    if poll.target in known.temporary and poll.target not in known.own and not lasting:
        return (Observation(TEMPORARY_MOVE_ADOPTED, f"{redact_target(poll.target)} was asked by itself"),)
    return KEPT if poll.target in known.own else None


def evaluate_ended(poll: Poll, known: ReaderState) -> Verdict | None:
    """Whether a feed that has ended is asked for no more."""
    gone = known.gone
    if gone is None or gone.count < SIGHTINGS or _may_be_over(poll, known):
        return None
    if poll.at - gone.last >= WEEK:
        return KEPT
    kind = XML_GONE_IGNORED if gone.xml else GONE_IGNORED
    return (Observation(kind, f"the end was told {gone.count} times, first {span(poll.at - gone.first)} ago"),)


def adoptions(known: ReaderState, target: str) -> str:
    """When a move was adopted, in words; empty where none was."""
    return "; ".join(_adopted_after(each) for each in known.permanent.values() if each.location == target)


def _adopted_after(seen: RelocationSightings) -> str:
    often = "once" if seen.count == 1 else f"{seen.count} times in {span(seen.last - seen.first)}"
    return f"{redact_target(seen.location)} after it was told {often}"


def is_left_alone(ended: Instant | None, now: Instant) -> bool:
    """Whether a feed that was last said to have ended then has not been asked for since, for a day or more."""
    return ended is not None and now - ended >= 86_400


def _is_observable(redirect: Poll, known: ReaderState) -> bool:
    """Whether it would be known here that it was followed."""
    return not known.partial and stays_in_proxy(redirect)


def _may_be_over(poll: Poll, known: ReaderState) -> bool:
    """Whether another may have said that a move or an end was taken back, since the feed is there again."""
    return known.partial and poll.succeeded


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
    advice = "A redirect document without a new address is RSS Feed State's 410. Tell the user, and stop asking."
    reference = "RSS Feed State, redirects"


class HEEDS_ENDINGS(Note):
    level = Level.GOOD
    category = Category.MOVES
    summary = "The feed has ended, and is left in peace."
    advice = "Nothing came after the end was told, or once a week at most."
    reference = "RFC 9110, section 15.5.11"
