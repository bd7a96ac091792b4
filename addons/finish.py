"""Framing of the responses of all addons (RFC 9110, sections 6.4 and 8.6)."""

from mitmproxy import http


class Finish:
    """Addon that removes the content from responses that must not have content."""

    def response(self, flow: http.HTTPFlow) -> None:
        response = flow.response
        if response is None or response.stream:
            return
        if flow.request.method == "HEAD" and response.raw_content:
            # Content-Length stays: it is the length of the response to a GET.
            response.headers.setdefault("Content-Length", str(len(response.raw_content)))
            response.data.content = b""
        if response.status_code in (204, 304) or response.status_code < 200:
            response.data.content = b""
            response.headers.pop("Content-Length", None)
            response.headers.pop("Transfer-Encoding", None)


addons = [Finish()]
