"""Domains and files of digits for studies."""

from __future__ import annotations

from support.comparison import domains, files

__all__ = ["domains", "files"]
