"""`hedgerow` and `python -m hedgerow`."""

from __future__ import annotations

import sys


def main() -> None:
    """The command line; without its packages, the way to get them."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show "±" shows "?"
    try:
        from hedgerow.cli.app import main as run
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("cyclopts", "rich"):
            raise
        sys.exit(f"error: the command line needs {error.name!r}: pip install 'hedgerow[cli]'")
    run()


if __name__ == "__main__":
    main()
