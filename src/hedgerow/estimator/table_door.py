"""The door for tables: all domains of a fit through one encoder, which is learned from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.core.arrays import Array, cast, check_finite
from hedgerow.core.domains import Domain
from hedgerow.core.mixed import Mixed
from hedgerow.estimator import inputs as door
from hedgerow.estimator import table_rows as tables
from hedgerow.estimator.files import Files
from hedgerow.tables.encoder import TableEncoder


class TableDoor(Files):
    """Behind it a model of tables is one of numbers; see `hedgerow.estimator.table_rows` for rows that come later."""

    def _encoded(self, table: Mixed, domain: Array) -> Array:
        """The rows of a table as numbers, by an encoder learned from all domains in it."""
        params = self.get_params(deep=False)
        parts = [(f"source {i}", np.flatnonzero(domain == i)) for i in np.unique(domain[domain >= 0])]
        target = np.flatnonzero(domain < 0)
        sources = [(name, table[at]) for name, at in parts]
        self.table_, numbers = tables.learned(params, sources, table[target])
        X = np.empty((len(table), self.table_.width))
        for at, part in zip([*(at for _, at in parts), target], numbers, strict=True):
            X[at] = part
        X = np.asarray(cast(X, door.given_dtype(self.dtype)))
        check_finite(X, "X", self.table_.feature_names, gaps=True)
        self._name_features(self.table_)
        return X

    def _name_features(self, encoder: TableEncoder) -> None:
        self.n_features_in_ = encoder.width
        self.feature_names_in_ = np.array(encoder.feature_names, dtype=object)
        self._names_of_domains = True

    def _encoded_domains(
        self, sources: Sequence[Domain], warmup: Domain | None, found: Sequence[Mixed]
    ) -> tuple[TableEncoder, list[Domain], Domain | None]:
        """Domains of numbers, by an encoder learned from all of them."""
        given = [(d.name, table) for d, table in zip(sources, found, strict=False)]
        target = None if warmup is None else (warmup.name, found[-1])
        params = self.get_params(deep=False)
        encoder, numbers = tables.learned(params, given, *((None,) if target is None else (target[1], target[0])))
        alike = [d.of_numbers(X, encoder.feature_names) for d, X in zip(sources, numbers, strict=False)]
        return encoder, alike, None if warmup is None else warmup.of_numbers(numbers[-1], encoder.feature_names)
