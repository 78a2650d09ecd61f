"""A real cluster of two processes for all tests of the folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("distributed", reason="pip install 'hedgerow[dask]'")


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    from hedgerow.dask.cluster import Place, connected

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the parts of a cluster say of each other when they start and end
        with connected(Place(workers=2)) as found:
            yield found
