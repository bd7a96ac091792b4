"""Faults of validators and of the origin's clock."""

from msgspec.structs import replace

from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.lab.replay.faults.fault import Fault, FaultContext, NumberFault
from feedproxy.lab.replay.replay_response import ReplayResponse
from feedproxy.lab.replay.timeline import Version


class GzipTag(Fault):
    """The server sends the ETag with `-gzip` appended, and does not recognise this tag in If-None-Match.

    Apache's mod_deflate does so by default (`DeflateAlterETag AddSuffix`). If-None-Match then never matches, and every
    poll costs the whole feed.

    A good reader returns the tag unchanged, including `-gzip`. The publisher can set `DeflateAlterETag NoChange`, or
    put a cache that removes the suffix in front of the server.
    """

    name = "gzip-tag"

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        tag = reply.fields.get("etag")
        if reply.status != 200 or not tag:
            return reply
        decorated = f'{tag[:-1]}-gzip"' if tag.endswith('"') else f"{tag}-gzip"
        return reply.with_field("ETag", decorated)


class WeakTag(Fault):
    """The ETag is weak: `W/"…"`. nginx makes a strong tag weak when it compresses.

    A good reader returns the tag unchanged, including `W/`. A reader that drops the prefix, or puts the whole tag in
    quotation marks, never gets a 304 from a strict server.
    """

    name = "weak-tag"

    def change_representation(self, representation: Version, context: FaultContext) -> Version:
        weak = (
            representation.tag
            if representation.tag.startswith("W/") or not representation.tag
            else f"W/{representation.tag}"
        )
        return replace(representation, tag=weak)


class UnquotedTag(Fault):
    """The ETag has no quotation marks: `ETag: abc`. The server answers 304 only to a request that returns the
    tag in this form, without marks.

    RFC 9110, section 8.8.3, does not allow such tags, but scripts send them.

    A good reader returns the value of the field unchanged and does not parse it.
    """

    name = "unquoted-tag"

    def change_representation(self, representation: Version, context: FaultContext) -> Version:
        return replace(representation, tag=representation.tag.removeprefix("W/").strip('"'))


class ChangingTag(Fault):
    """Every response has a different ETag although nothing has changed, and Last-Modified is the time of the response.

    Typical causes are servers behind a load balancer that compute tags from inode numbers, and pages that are generated
    for each request.

    A good reader returns the newest tag and compares the content to find out whether anything is new.
    """

    name = "changing-tag"

    def change_representation(self, representation: Version, context: FaultContext) -> Version:
        tag = f'"{context.random.getrandbits(64):016x}"'
        return replace(representation, tag=tag, modified=format_http_date(context.incoming.at))


class NoValidators(Fault):
    """The responses have neither ETag nor Last-Modified.

    A good reader sends no condition, in particular no If-Modified-Since from its own clock. It polls less often and
    accepts compression.
    """

    name = "no-validators"

    def change_representation(self, representation: Version, context: FaultContext) -> Version:
        return replace(representation, tag="", modified="")


class Frozen304(Fault):
    """Conditional requests are always answered 304, even after the feed has changed.

    Typical causes are a cache that is not updated, and a plugin that compares the wrong values.

    A good reader sends an unconditional request now and then, such as once a week, and so gets the current feed.
    """

    name = "frozen-304"

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        if reply.status != 200 or not context.incoming.is_conditional:
            return reply
        tag = context.incoming.request.fields.get("if-none-match")
        fields = reply.fields.without("content-type", "content-encoding", "etag", "last-modified")
        fields = fields.with_field("ETag", tag) if tag else fields
        return replace(reply, status=304, fields=fields, body=b"", reason="Not Modified")


class ClockSkew(NumberFault):
    """The server's clock is wrong, and therefore Date and Expires are, too.

    The fault's value is the difference from the real time in seconds, negative for a clock that is behind (default: one
    hour behind).

    A good reader measures max-age from the time when it received the response, by its own clock. It returns
    Last-Modified unchanged and never sends a date of its own.
    """

    name = "clock-skew"
    default = "-3600"

    def change_response(self, reply: ReplayResponse, context: FaultContext) -> ReplayResponse:
        fields = reply.fields
        for name in ("Date", "Expires"):
            if (date := parse_http_date(fields.get(name) or "", context.incoming.at)) is not None:
                fields = fields.with_field(name, format_http_date(date + self.number))
        return replace(reply, fields=fields)


class FutureLastModified(NumberFault):
    """Last-Modified is in the future. The fault's value is the time until then, in seconds (default: one year).

    Typical causes are a local time that is sent as GMT, and items with a future date.

    A good reader returns the date unchanged. If a reader sends a date of its own clock instead, it gets no 304, because
    this date is earlier than Last-Modified.
    """

    name = "future-last-modified"
    default = "31536000"
    least = 1

    def change_representation(self, representation: Version, context: FaultContext) -> Version:
        date = parse_http_date(representation.modified, context.incoming.at)
        # The offset is added to the recorded date, so that Last-Modified changes when the feed does.
        modified = format_http_date((context.incoming.at if date is None else date) + self.number)
        return replace(representation, modified=modified)


FAULTS = (GzipTag, WeakTag, UnquotedTag, ChangingTag, NoValidators, Frozen304, ClockSkew, FutureLastModified)
