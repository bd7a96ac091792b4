"""Garbage is looked for where nobody waits.

What a full store holds takes Python a tenth of a second to look through, in which no reader is answered; and there is
hardly anything in it that only such a look would find, since nearly all is let go when nobody holds it any more. So all
of it is looked at when the readers are silent, or once a day; and what was made since then little by little, each time
in a millisecond or less.
"""

import gc

from feedproxy.clock import Seconds

YOUNG, MIDDLE = 1_000, 1
"""Objects made before the young ones are looked at, and such looks before one at what has survived them: a few thousand
then, in a millisecond. Ten thousand of a full store take seven."""

WHOLE, NEVER = 2_000, 1_000_000
"""Looks at the middle ones before one at all."""

SILENT: Seconds = 2
"""How long nobody must have asked."""
SELDOM: Seconds = 600
DAY: Seconds = 86_400


def look_seldom(*, told_when: bool) -> None:
    """What was made until now stays, and need not be looked at again; what is made later is looked at as said above.

    `told_when`: a Garbage tells when all is looked at; else Python finds out, and every reader waits.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, NEVER if told_when else WHOLE)


class Garbage:
    """When all that is held is looked through. `look` is called each second; times are the event loop's."""

    def __init__(self, now: Seconds) -> None:
        self._looked = now
        self._asked = now
        self._answers = 0

    def look(self, now: Seconds, answers: int) -> bool:
        """Look through everything, if it is time; `answers` have been given so far. Whether it was."""
        if answers != self._answers:
            self._answers, self._asked = answers, now
        since = now - self._looked
        if since < SELDOM or (now - self._asked < SILENT and since < DAY):
            return False
        self._looked = now
        gc.collect()
        return True
