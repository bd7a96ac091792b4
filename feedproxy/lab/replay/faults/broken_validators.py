"""Faults of validators and of the origin's clock."""

from dataclasses import replace

from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.lab.replay.faults.base import Fault, FaultContext
from feedproxy.lab.replay.replay_response import ReplayRequest, ReplayResponse, Representation


class GzipTag(Fault):
    """The tag has `-gzip` appended when it is sent, and is not known again when it comes back.

    Apache's mod_deflate did so for many years (and does with `DeflateAlterETag AddSuffix`). If-None-Match never
    matches, so every poll costs the whole feed.

    A good reader returns the tag exactly as it came, `-gzip` included, and sends If-Modified-Since beside it. It
    cannot do better; a cache in front can, which knows the tag by its stem.
    """

    name = "gzip-tag"

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        tag = reply.fields.get("etag")
        if reply.status != 200 or not tag:
            return reply
        decorated = f'{tag[:-1]}-gzip"' if tag.endswith('"') else f"{tag}-gzip"
        return reply.with_field("ETag", decorated)


class WeakTag(Fault):
    """The tag is a weak one, `W/"…"`, as nginx makes it of a strong one when it compresses.

    A good reader returns it as it came, with the `W/`. A reader that drops the prefix, or quotes the
    whole again, never gets a 304 from a strict server.
    """

    name = "weak-tag"

    def show(self, shown: Representation, incoming: ReplayRequest, context: FaultContext) -> Representation:
        weak = shown.tag if shown.tag.startswith("W/") or not shown.tag else f"W/{shown.tag}"
        return replace(shown, tag=weak)


class UnquotedTag(Fault):
    """The tag stands without its quotation marks: `ETag: abc`. The server knows it as it stands, and no other way.

    RFC 9110, section 8.8.3, knows no such tag, and scripts send them all the same.

    A good reader returns the field's value exactly as it came, without understanding it.
    """

    name = "unquoted-tag"

    def show(self, shown: Representation, incoming: ReplayRequest, context: FaultContext) -> Representation:
        return replace(shown, tag=shown.tag.removeprefix("W/").strip('"'))


class ChangingTag(Fault):
    """Every answer has another tag, though nothing has changed; Last-Modified is the time of the answer.

    Servers behind a load balancer that make tags of inode numbers do so, and pages that are generated anew.

    A good reader returns the newest tag, not an older one, and finds out by the content that nothing is new.
    """

    name = "changing-tag"

    def show(self, shown: Representation, incoming: ReplayRequest, context: FaultContext) -> Representation:
        tag = f'"{context.random.getrandbits(64):016x}"'
        return replace(shown, tag=tag, modified=format_http_date(context.now))


class NoValidators(Fault):
    """Neither ETag nor Last-Modified: nothing to ask with.

    A good reader invents nothing (no If-Modified-Since of its own clock's), asks less often, and asks for
    compression.
    """

    name = "no-validators"

    def show(self, shown: Representation, incoming: ReplayRequest, context: FaultContext) -> Representation:
        return replace(shown, tag="", modified="")


class Frozen304(Fault):
    """Conditional requests get 304 for ever, whatever has been published since.

    A cache that is stuck, or a plugin that compares with the wrong thing.

    A good reader asks without conditions now and then (once a week, say), and thereby gets out.
    """

    name = "frozen-304"

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        if reply.status != 200 or not incoming.conditional:
            return reply
        tag = incoming.request.fields.get("if-none-match")
        fields = reply.fields.without("content-type", "content-encoding", "etag", "last-modified")
        fields = fields.with_field("ETag", tag) if tag else fields
        return replace(reply, status=304, fields=fields, body=b"", reason="Not Modified")


class ClockSkew(Fault):
    """The server's clock is wrong: Date and Expires are off by so many seconds (default: an hour behind; below zero
    is behind, above ahead).

    A good reader measures a max-age from when the answer came, by its own clock, and does not reckon with Date alone.
    It returns Last-Modified as it came, and never a date of its own.
    """

    name = "clock-skew"
    default = "-3600"

    def check(self) -> None:
        self.number()

    def answer(self, reply: ReplayResponse, incoming: ReplayRequest, context: FaultContext) -> ReplayResponse:
        fields = reply.fields
        for name in ("Date", "Expires"):
            if (date := parse_http_date(fields.get(name) or "", context.now)) is not None:
                fields = fields.with_field(name, format_http_date(date + self.number()))
        return replace(reply, fields=fields)


class FutureLastModified(Fault):
    """Last-Modified lies in the future, by so many seconds (default: a year).

    Time zones that were mixed up, and items that are dated ahead.

    A good reader returns it as it came. A reader that corrects it by its own clock loses the 304 or, worse, what is
    published until then.
    """

    name = "future-last-modified"
    default = "31536000"

    def check(self) -> None:
        self.number(1)

    def show(self, shown: Representation, incoming: ReplayRequest, context: FaultContext) -> Representation:
        date = parse_http_date(shown.modified, context.now)
        # Counted from what it was, so that it changes when the feed does.
        modified = format_http_date((context.now if date is None else date) + self.number())
        return replace(shown, modified=modified)


FAULTS = (GzipTag, WeakTag, UnquotedTag, ChangingTag, NoValidators, Frozen304, ClockSkew, FutureLastModified)
