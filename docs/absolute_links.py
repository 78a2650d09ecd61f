"""A page for a place where the repository is not: its relative links and pictures made absolute.

python docs/absolute_links.py https://HOST/OWNER/hedgerow README.md > README-for-the-index.md

ADDRESS is the repository's public address on a code host; pages and folders are linked below ADDRESS/blob/REF, pictures
below ADDRESS/raw/REF (--ref, by default main).
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s]+)\)")


def absolute(text: str, address: str, folder: str = "", ref: str = "main") -> str:
    """The text with every relative link below an address; `folder` is where the page stands in the repository.

    >>> absolute("[a](docs/a.md#b) ![p](p.png) [c](#d) [e](https://e)", "https://host/me")
    '[a](https://host/me/blob/main/docs/a.md#b) ![p](https://host/me/raw/main/p.png) [c](#d) [e](https://e)'
    """
    if not re.match(r"https?://[^/\s]+/\S+$", address):
        raise SystemExit(
            f"{address!r} is no address of a repository; give one such as https://HOST/OWNER/hedgerow"
        )

    def made(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if target.startswith("#") or re.match(r"[a-z]+:", target):
            return found[0]
        kind = "raw" if picture else "blob"
        path = f"{folder.strip('/')}/{target}".lstrip("/")
        return f"{picture}[{words}]({address.rstrip('/')}/{kind}/{ref}/{path})"

    return LINK.sub(made, text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("address")
    parser.add_argument("page", type=Path)
    parser.add_argument("--ref", default="main")
    given = parser.parse_args()
    sys.stdout.write(absolute(given.page.read_text(encoding="utf-8"), given.address, ref=given.ref))
