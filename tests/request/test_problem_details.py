"""Titles of feedproxy's own error responses."""

import json

import pytest

from feedproxy.http.message import Fields, Request
from feedproxy.request.problem_details import problem_response

REFUSALS = (400, 401, 403, 404, 405, 406, 407, 410, 413, 421, 429, 502, 503, 504, 508)
"""The statuses with which feedproxy refuses or cannot answer a request for a target."""


@pytest.mark.parametrize("status", REFUSALS)
def test_refusal_has_another_title_than_an_internal_error(status: int) -> None:
    document = json.loads(problem_response(status, "detail", "reason").body)

    assert document["title"] != json.loads(problem_response(500, "detail", "reason").body)["title"]


def test_page_for_a_browser_marks_its_main_content() -> None:
    request = Request("GET", "https://example.com/", Fields([("Accept", "text/html")]))

    page = problem_response(502, "unreachable", "the origin cannot be reached", request=request).body.decode()

    assert "<main><h1>The origin" in page
