"""What can go wrong with a live model."""

from __future__ import annotations

from hedgerow.core.errors import HedgerowError


class JournalError(HedgerowError):
    """The journal or a snapshot cannot be written or read as it was written; the last good state is kept."""


class Owned(HedgerowError):
    """Another process has this live model open."""


class Closed(HedgerowError):
    """The live model was closed."""


class Busy(HedgerowError):
    """Too much is waiting; nothing was done, and it may be tried again."""
