"""Update of the digests of container images in Dockerfile and conf/compose.yaml: `make image-digests`.

A tag can be moved to another image at any time, but a digest cannot. The files have both: the tag states the intended
image, and the digest is fetched. The script asks the registry with Docker's own client for the current digest of each
tag.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = (ROOT / "Dockerfile", ROOT / "conf" / "compose.yaml")

IMAGE = re.compile(r"(?P<image>[a-z0-9][a-z0-9._/-]*:[A-Za-z0-9_][A-Za-z0-9_.-]*)@sha256:(?P<digest>[0-9a-f]{64})")


def renewed(text: str, digest_of: Callable[[str], str]) -> str:
    """Return the text with the current digest of each image that it names by tag and digest."""

    def replaced(found: re.Match[str]) -> str:
        digest = digest_of(found["image"])
        if not re.fullmatch("sha256:[0-9a-f]{64}", digest):
            raise ValueError(f"{found['image']}: expected a digest, found {digest!r}")
        return f"{found['image']}@{digest}"

    return IMAGE.sub(replaced, text)


def digest_of(image: str) -> str:
    """Return the digest to which the registry's tag refers now: that of the index for all architectures, if there is
    one."""
    command = ["docker", "buildx", "imagetools", "inspect", image, "--format", "{{.Manifest.Digest}}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()  # noqa: S603


def main() -> int:
    """Update all digests, or none if one cannot be determined."""
    try:
        texts = {path: renewed(path.read_text(encoding="utf-8"), digest_of) for path in FILES}
    except FileNotFoundError:
        print("make image-digests needs docker with buildx", file=sys.stderr)
        return 1
    except (subprocess.SubprocessError, ValueError) as error:
        print(f"image digests were not renewed: {error}", file=sys.stderr)
        return 1
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
