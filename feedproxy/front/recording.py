"""From mitmproxy's flows to exchanges of a recording: those of the product, and those of flow files."""

from pathlib import Path

from mitmproxy import http
from mitmproxy import io as flows
from mitmproxy.exceptions import FlowReadException

from feedproxy.errors import BadTarget, UsageError
from feedproxy.front.arrival import fields_of
from feedproxy.front.desk import Case
from feedproxy.http import uri
from feedproxy.http.message import Fields, Request
from feedproxy.lab import har
from feedproxy.lab.exchange import Exchange, Recording, Side
from feedproxy.lab.recorder import settled

type Noted = tuple[Exchange, bytes | None]
"""An exchange, and its body on the wire; None where that has passed and was not kept."""


def of_reader(flow: http.HTTPFlow, case: Case, at: float, seconds: float) -> Noted:
    """What a reader asked, and was answered."""
    assert case.arrival is not None
    target, visit = case.arrival.request.target, case.visit
    response = flow.response or case.page
    told = _exchange(
        flow, response, Side.READER, target, at, seconds, reader=visit.address, entrance=str(visit.entrance)
    )
    return told, _body(response)


def of_flow(flow: http.HTTPFlow, at: float, seconds: float) -> Noted:
    """What mitmproxy asked an origin, and was answered. Fields are as they were when this is called."""
    try:
        target = uri.normalise(flow.request.url)
    except BadTarget:
        target = flow.request.url
    return _exchange(flow, flow.response, Side.ORIGIN, target, at, seconds), _body(flow.response)


def _exchange(
    flow: http.HTTPFlow,
    response: http.Response | None,
    side: Side,
    target: str,
    at: float,
    seconds: float,
    *,
    reader: str = "",
    entrance: str = "",
) -> Exchange:
    streamed = getattr(response.stream, "size", None) if response is not None else None
    body = response.raw_content if response is not None else None
    return Exchange(
        side=side,
        at=at,
        request=Request(flow.request.method, target, fields_of(flow.request)),
        status=response.status_code if response is not None else 0,
        fields=fields_of(response) if response is not None else Fields(),
        reason=response.reason if response is not None else "",
        size=len(body or b"") if streamed is None else streamed,
        seconds=seconds,
        reader=reader,
        connection=flow.client_conn.id if side is Side.READER else flow.server_conn.id,
        version=flow.request.http_version,
        entrance=entrance,
        failure=flow.error.msg if flow.error is not None else "",
    )


def _body(response: http.Response | None) -> bytes | None:
    return response.raw_content if response is not None and not response.stream else None


# -- files


def read(path: Path) -> Recording:
    """A recording in a HAR file, or in one of mitmproxy's flow files. Raises UsageError."""
    try:
        with path.open("rb") as file:
            beginning = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    # A flow file begins with the length of its first flow.
    return _imported(path) if beginning[:1].isdigit() else har.read(path)


def _imported(path: Path) -> Recording:
    exchanges: list[Exchange] = []
    contents: dict[str, bytes] = {}
    try:
        with path.open("rb") as file:
            for flow in flows.FlowReader(file).stream():
                if isinstance(flow, http.HTTPFlow) and flow.request.method != "CONNECT":
                    began = flow.request.timestamp_start
                    ended = flow.response.timestamp_end if flow.response is not None else None
                    exchange, content = settled(*of_flow(flow, began, max(0.0, (ended or began) - began)))
                    exchanges.append(exchange)
                    contents[exchange.digest] = content
    except (FlowReadException, ValueError, OSError) as error:
        raise UsageError(f"{path}: no flow file: {error}") from error
    contents.pop("", None)
    return Recording(tuple(sorted(exchanges, key=lambda exchange: exchange.at)), contents)
