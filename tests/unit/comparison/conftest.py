"""One comparison for all tests of the folder."""

from __future__ import annotations

from support.comparison import comparison, domains, files

__all__ = ["comparison", "domains", "files"]
