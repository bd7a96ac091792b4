"""Secret addresses: `/-/with/TOKEN/…`, where the token says who reads (seed 003, 11.1.8).

What stands behind the token is read as if it were the whole address: a target, or `/-/as/FORMAT/TARGET`.
"""

from dataclasses import replace

from feedproxy.app import Runtime
from feedproxy.errors import NotFound, TooLarge
from feedproxy.http.message import Fields, Request, Response
from feedproxy.proxy.representations import conversions
from feedproxy.proxy.service import PassThrough
from feedproxy.request.endpoints import Call
from feedproxy.request.entrance import ClientContext
from feedproxy.server.mitm.request_routing import target_below

PATH = "with/"
"""What comes before the token, below the endpoints' prefix."""


async def answer(here: Runtime, call: Call) -> Response:
    """Answer for the target behind the token. Raises NotFound where the token is not good for that, or not any more.

    All that the answer names stays behind the same token: it is the only way in that this reader knows.
    """
    token, _, rest = call.path.removeprefix(PATH).partition("/")
    if f"/{rest}".startswith(f"{here.settings.endpoint_prefix}{conversions.PATH}"):
        return await _converted(here, call, token, rest)
    target = target_below(f"/{rest}?{call.query}" if call.query else f"/{rest}", here.settings)
    visit = _inside(here, call.client, token)
    user, fields = await _admitted(here, call, token, target)
    match await here.service.answer(Request(call.request.method, target, fields), replace(visit, user=user)):
        case PassThrough():
            raise TooLarge("what is there is larger than is kept, and no feed")
        case found:
            return found.response


async def _converted(here: Runtime, call: Call, token: str, rest: str) -> Response:
    """The same in another format."""
    inner = rest.removeprefix(here.settings.endpoint_prefix.removeprefix("/"))
    said = f"/{rest}?{call.query}" if call.query else f"/{rest}"
    call = replace(
        call,
        path=inner,
        request=replace(call.request, target=said),
        client=_inside(here, call.client, token),
    )
    wanted, target = here.service.conversions.parse_call(call)
    user, fields = await _admitted(here, call, token, target)
    return await here.service.conversions.respond(call, wanted, target, fields, user=user)


def _inside(here: Runtime, visit: ClientContext, token: str) -> ClientContext:
    return replace(visit, base=f"{visit.base}{here.settings.endpoint_prefix}{PATH}{token}")


async def _admitted(here: Runtime, call: Call, token: str, target: str) -> tuple[str, Fields]:
    """Whose token it is, and what of his fields may go on. Raises NotFound and AccessDenied."""
    tokens = here.doorkeeper.tokens
    user = tokens.user_of(token, target) if tokens is not None else None
    if user is None:
        raise NotFound("There is no such address, or not any more.")
    readers = here.settings_for(target).readers
    return await here.doorkeeper.admit(readers, call.request.fields, call.client.address, proxy=False, user=user)
