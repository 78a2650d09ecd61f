"""Tables as they are: columns of every kind become numbers, in the same way wherever rows come in."""

from __future__ import annotations

from hedgerow.tables.columns import BadCell
from hedgerow.tables.encoder import TableEncoder
from hedgerow.tables.learning import TableOptions, learn

__all__ = ["BadCell", "TableEncoder", "TableOptions", "learn"]
