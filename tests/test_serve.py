"""What `serve` finds out before it lets anybody in."""

from pathlib import Path

import pytest

from feedproxy import serve
from feedproxy.errors import UsageError


async def test_a_folder_for_the_ca_that_cannot_be_had_is_told_before_anybody_is_let_in(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = {"confdir": str(tmp_path / "file" / "ca"), "store": "memory:", "admin": ""}

    with pytest.raises(UsageError, match=r"^confdir \(for the CA\): .* cannot be used: Not a directory$"):
        await serve.serve(serve.Plan(options=options), print)
