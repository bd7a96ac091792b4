"""Bodies that helper processes derive from stored content: deltas, `dcz` bodies, content codings."""

import logging
from collections.abc import Callable

from feedproxy.errors import FeedproxyError, Overload
from feedproxy.refresh.ingest.helper_pool import HelperPool

logger = logging.getLogger(__name__)


async def make_body(
    helper_pool: HelperPool, work: Callable[[], bytes | None], kind: str, target: str
) -> tuple[bytes | None, bool]:
    """Return a body that `work` makes in a helper process, and True if the result is final.

    The body is None if `work` returned None or raised an exception. The exception is logged with `kind` and `target`.
    If no helper process was free, the result is not final, and the next request should try again.
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
