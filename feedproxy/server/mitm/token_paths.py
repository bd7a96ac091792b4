"""Secret addresses: in `/-/with/TOKEN/…`, the token authenticates a user. A target or `/-/as/FORMAT/TARGET` follows."""

from msgspec.structs import replace

from feedproxy.app import App
from feedproxy.errors import NotFound, TooLarge
from feedproxy.http.message import Fields, Request, Response
from feedproxy.proxy.representations import conversions
from feedproxy.proxy.service import PassThrough
from feedproxy.request.context import ClientContext
from feedproxy.request.endpoint_registry import Call
from feedproxy.server.mitm.request_routing import target_of_path

PATH = "with/"
"""Path before the token, relative to the prefix of endpoints."""


async def handle(app: App, call: Call) -> Response:
    """Return the response for the target after the token. Raises NotFound if the token is revoked, or not valid for the
    target. The proxy's addresses in the response contain the token, because the client has no other credentials."""
    response = await _respond(app, call)
    # An origin's Referrer-Policy could make browsers send the secret address to the sites of images in a page.
    return response.with_fields(response.fields.with_field("Referrer-Policy", "no-referrer"))


async def _respond(app: App, call: Call) -> Response:
    token, _, address = call.path.removeprefix(PATH).partition("/")
    if f"/{address}".startswith(f"{app.settings.endpoint_prefix}{conversions.PATH}"):
        return await _convert(app, call, token, address)
    target = target_of_path(f"/{address}?{call.query}" if call.query else f"/{address}", app.settings)
    client = _client_with_token(app, call.client, token)
    user, fields = await _authorize(app, call, token, target)
    match await app.service.answer(Request(call.request.method, target, fields), replace(client, user=user)):
        case PassThrough():
            raise TooLarge("the response is not a feed and larger than buffer_max")
        case answered:
            return answered.response


async def _convert(app: App, call: Call, token: str, address: str) -> Response:
    """Return the response to a call with the path `address`: the target in the format that the path names."""
    inner = address.removeprefix(app.settings.endpoint_prefix.removeprefix("/"))
    request_target = f"/{address}?{call.query}" if call.query else f"/{address}"
    call = replace(
        call,
        path=inner,
        request=replace(call.request, target=request_target),
        client=_client_with_token(app, call.client, token),
    )
    output_format, target = app.service.conversions.parse_call(call)
    user, fields = await _authorize(app, call, token, target)
    return await app.service.conversions.respond(call, output_format, target, fields, user=user)


def _client_with_token(app: App, client: ClientContext, token: str) -> ClientContext:
    return replace(client, base=f"{client.base}{app.settings.endpoint_prefix}{PATH}{token}")


async def _authorize(app: App, call: Call, token: str, target: str) -> tuple[str, Fields]:
    """Return the token's user, and the fields to send upstream. Raises NotFound for an invalid token, and AccessDenied
    if the user may not read the target."""
    tokens = app.parts.access_control.tokens
    user = tokens.user_of(token, target) if tokens is not None else None
    if user is None:
        raise NotFound("This address does not exist, or not any more.")
    readers = app.settings_for(target).readers
    return await app.parts.access_control.authorize(
        readers, call.request.fields, call.client.address, proxy=False, user=user
    )
