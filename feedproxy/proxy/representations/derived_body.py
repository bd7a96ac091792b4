"""Bodies that helper processes make of stored content: deltas, dcz, codings."""

import logging
from collections.abc import Callable

from feedproxy.errors import FeedproxyError, Overload
from feedproxy.refresh.ingest.helper_pool import HelperPool

logger = logging.getLogger(__name__)


async def make_body(
    helper_pool: HelperPool, work: Callable[[], bytes | None], kind: str, target: str
) -> tuple[bytes | None, bool]:
    """Return the body, None where there is none, and whether that holds for later requests, too.

    A lack of processes does not hold: the next request tries again. A fault must not cost the response, since the
    client can be given the content in another form; it is logged with `kind` and `target`.
    """
    try:
        return await helper_pool.submit(work), True
    except Overload:
        return None, False
    except FeedproxyError as error:
        logger.warning("%s of %s is not made: %s", kind, target, error)
    except Exception:
        logger.exception("%s of %s could not be made", kind, target)
    return None, True
