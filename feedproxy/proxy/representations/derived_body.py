"""Bodies that helper processes derive from stored content: deltas, dcz bodies, content codings."""

import logging
from collections.abc import Callable

from feedproxy.errors import FeedproxyError, Overload
from feedproxy.refresh.ingest.helper_pool import HelperPool

logger = logging.getLogger(__name__)


async def make_body(
    helper_pool: HelperPool, work: Callable[[], bytes | None], kind: str, target: str
) -> tuple[bytes | None, bool]:
    """Let a helper process run `work`, and return its result as two values.

    The first value is the body, or None if `work` gave none. The second is True if this result is final. It is not
    final if no helper process is free: the next request should then try again. An exception of `work` is logged with
    `kind` and `target`, and the body is None. The client can then get the content in another form.
    """
    try:
        return await helper_pool.submit(work), True
    except Overload:
        return None, False
    except FeedproxyError as error:
        logger.warning("representation: %s of %s not made: %s", kind, target, error)
    except Exception:
        logger.exception("representation: %s of %s failed", kind, target)
    return None, True
