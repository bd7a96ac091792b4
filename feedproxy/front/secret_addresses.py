"""Secret addresses: `/-/with/TOKEN/…`, where the token says who reads (seed 003, 11.1.8)."""

from dataclasses import replace

from feedproxy.errors import NotOurs, TooLarge
from feedproxy.front.arrival import target_below
from feedproxy.http.message import Request, Response
from feedproxy.origin.endpoints import Call
from feedproxy.origin.service import PassThrough
from feedproxy.runtime import Runtime

PATH = "with/"
"""What comes before the token, below the endpoints' prefix."""


async def answer(here: Runtime, call: Call) -> Response:
    """Answer for the target behind the token. Raises NotOurs where the token is not good for that, or not any more.

    All that the answer names stays behind the same token: it is the only way in that this reader knows.
    """
    token, _, rest = call.path.removeprefix(PATH).partition("/")
    target = target_below(f"/{rest}?{call.query}" if call.query else f"/{rest}", here.settings)
    tokens = here.doorkeeper.tokens
    user = tokens.user_of(token, target) if tokens is not None else None
    if user is None:
        raise NotOurs("There is no such address, or not any more.")
    visit = replace(call.visit, base=f"{call.visit.base}{here.settings.endpoint_prefix}{PATH}{token}")
    readers = here.settings_for(target).readers
    user, fields = await here.doorkeeper.admit(readers, call.request.fields, visit.address, proxy=False, user=user)
    match await here.service.answer(Request(call.request.method, target, fields), replace(visit, user=user)):
        case PassThrough():
            raise TooLarge("what is there is larger than is kept, and no feed")
        case found:
            return found.response
