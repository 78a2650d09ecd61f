"""Tables as they are: columns of every kind become numbers, in the same way wherever rows come in."""

from __future__ import annotations

from hedgerow.tables.encoder import TableEncoder
from hedgerow.tables.options import TableOptions
from hedgerow.tables.learning import learn

__all__ = ["TableEncoder", "TableOptions", "learn"]
