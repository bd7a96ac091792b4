"""The time of every regular expression of the product grows with the text, searched as in its module."""

import functools
import importlib
import math
import pkgutil
import re
import signal
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import feedproxy
from feedproxy.http.target_uri.target_pattern import TargetPattern
from tests.security.junk import PIECES

type Pattern = re.Pattern[str] | re.Pattern[bytes]

NOT_REACHED = (
    "feedproxy.demo",
    "feedproxy.lab",
    "feedproxy.usm.desktop_integration",
    "feedproxy.commands",
    "feedproxy.addons",
)
"""Packages whose texts are the operator's own."""

LENGTH = 4096
"""Characters: linear searches take less than 2 ms, and quadratic ones 40 ms."""

REACHED = {"feedproxy.durations_and_sizes._PART": 128}
"""Characters of the longest text, for patterns that only meet short ones of the operator."""

PASSED_ON = {"feedproxy.http.structured_fields": ("match",), "feedproxy.feed.feed_dates": ("fullmatch",)}
"""By module: the methods with which its patterns are searched, if the module passes them to a function or keeps them in
a tuple."""

NOISE = 0.005
"""Seconds: a cost above it is measured again, and compared with that of half the text."""

GROWTH = 3
"""Quadratic time is 4 times as long for twice the text."""

COMPARED = 0.05
"""Seconds that a comparison lasts at least. A virtual machine's clock of processor time errs by some milliseconds."""

TOO_LONG = 1.0

MADE_TO_TAKE_LONG = {
    "feedproxy.request.forwarded_client_address._ENTRY": "a=b" + ";  " * 30 + "!",
    "feedproxy.request.forwarded_client_address._PAIRS": "a" * LENGTH,
    "feedproxy.http.user_agent._PRODUCT": "a" * LENGTH,
    "feedproxy.http.target_uri.url_redaction._JWT": "-eyJ" * (LENGTH // 4),
    "feedproxy.feed.edit.self_link._ATTRIBUTE": "a" * LENGTH,
    "feedproxy.access.wsse._PARAMETER": "a" * LENGTH,
}


class _TookTooLongError(Exception):
    pass


@functools.cache
def _patterns() -> tuple[tuple[str, Pattern, tuple[str, ...]], ...]:
    """Return name, pattern, and the methods that its module calls, for each pattern."""
    return tuple(_walk_patterns())


def _walk_patterns() -> Iterator[tuple[str, Pattern, tuple[str, ...]]]:
    for module in pkgutil.walk_packages(feedproxy.__path__, "feedproxy."):
        if module.name.startswith(NOT_REACHED) or module.name.endswith("__main__"):
            continue
        loaded = importlib.import_module(module.name)
        source = Path(str(loaded.__file__)).read_text(encoding="utf-8")
        for name, value in vars(loaded).items():
            patterns = value if isinstance(value, tuple) else (value,)
            if not any(isinstance(each, re.Pattern) for each in patterns):
                continue
            if not re.search(rf"^{name}\b[^\n]*=", source, re.MULTILINE):
                continue
            found = re.findall(rf"\b{name}\.(search|match|fullmatch|finditer|findall|sub|split)\b", source)
            usual = PASSED_ON.get(module.name, ("finditer", "fullmatch"))
            for number, pattern in enumerate(patterns):
                if isinstance(pattern, re.Pattern):
                    label = f"{name}[{number}]" if isinstance(value, tuple) else name
                    yield f"{module.name}.{label}", pattern, tuple(sorted(set(found))) or usual


def _own(pattern: Pattern) -> list[str]:
    """Return pieces made from the pattern's own characters and words, and pairs of them separated by a space."""
    written = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    words = sorted(set(re.findall(r"[a-zA-Z]{3,}|[^\w\s\\()?*+|]", written)), key=len)[:8]
    return [f"{one}{between}{other}" for one, other in product(words, words) for between in ("", "  ")]


def _cost(pattern: Pattern, method: str, text: str) -> float:
    """Return the processor time of this thread in seconds, or TOO_LONG if it exceeds that limit."""
    subject = text.encode() if isinstance(pattern.pattern, bytes) else text
    before = signal.signal(signal.SIGVTALRM, _give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, TOO_LONG)
    began = time.thread_time()
    try:
        search = getattr(pattern, method)
        if method == "sub":
            search(subject[:0], subject)
        elif method == "finditer":
            for _ in search(subject):
                pass
        else:
            search(subject)
    except _TookTooLongError:
        return TOO_LONG
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return time.thread_time() - began


def _give_up(*_: object) -> None:
    raise _TookTooLongError


def _is_slow(pattern: Pattern, method: str, text: str) -> bool:
    """Return True if the text costs more than GROWTH times its first half in every comparison."""
    for _ in range(3):
        if (once := _cost(pattern, method, text)) <= NOISE:
            return False
        times = math.ceil(COMPARED / once)
        whole = sum(_cost(pattern, method, text) for _ in range(times))
        half = sum(_cost(pattern, method, text[: len(text) // 2]) for _ in range(times))
        if whole < TOO_LONG * times and whole <= GROWTH * half:
            return False
    return True


def test_time_of_regular_expressions_grows_with_the_text() -> None:
    slow = {}
    common = [piece * (LENGTH // len(piece)) for piece in PIECES]
    for number, (name, pattern, methods) in enumerate(sorted(_patterns(), key=lambda found: found[0])):
        reached = REACHED.get(name, LENGTH)
        # Each pattern is tested with every third common piece. Its own pieces are short, to find exponential growth.
        texts = [text[:reached] for text in common[number % 3 :: 3]]
        texts += [(piece * 30 + "!")[:reached] for piece in _own(pattern)]
        texts += [MADE_TO_TAKE_LONG[name]] if name in MADE_TO_TAKE_LONG else []
        for method, text in product(methods, texts):
            if _is_slow(pattern, method, text):
                slow[name, method] = text[:40]
    assert not slow


def test_time_of_an_operators_pattern_grows_with_the_target() -> None:
    """The operator writes the pattern of a rule, but clients choose the targets that it is compared with."""
    slow = {}
    for written, piece in {
        "http://a.example/*private*feed*xml": "privatefeed",
        "http://*.example/*a*a*a*b": "a",
        "http://a.example/f?a=*b*c": "&a=b",
        "http://a.example/f?*b*c": "&a=b",
    }.items():
        pattern, start = TargetPattern(written), "http://a.example/f?"
        target = start + piece * (LENGTH // len(piece))
        for regex in (pattern._regex, pattern._wide):
            if _is_slow(regex, "fullmatch", target) or _is_slow(regex, "fullmatch", target.replace("?", "/")):
                slow[written] = regex.pattern
    assert not slow


def test_texts_for_slow_patterns_name_existing_patterns() -> None:
    assert {*MADE_TO_TAKE_LONG, *REACHED} <= {name for name, _, _ in _patterns()}
