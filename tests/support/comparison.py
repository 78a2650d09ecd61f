"""Fixtures: three sources and a stream of digits, small, as files and as one comparison in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hedgerow import Domain, load
from hedgerow.comparison.compare import compare
from hedgerow.comparison.found import Comparison

METHODS = "pa,homotlms,hedgerow-linear"


@pytest.fixture(scope="session")
def domains() -> dict[str, Domain]:
    """The digits 0 to 4, every third pixel: enough to learn from, quick to run."""
    small = {}
    for name in ("tilted", "faded", "shifted"):
        whole = load("digits")[name]
        rows = np.flatnonzero(np.asarray(whole.y) < 5)
        names = tuple(f"p{i}" for i in range(0, 64, 3))
        small[name] = Domain(
            name, np.asarray(whole.X)[rows][:, ::3], np.asarray(whole.y)[rows], feature_names=names
        )
    return small


@pytest.fixture(scope="session")
def files(domains: dict[str, Domain], tmp_path_factory: pytest.TempPathFactory) -> Path:
    import pandas as pd

    folder = tmp_path_factory.mktemp("files")
    for name, domain in domains.items():
        frame = pd.DataFrame(np.asarray(domain.X), columns=list(domain.feature_names)).assign(
            digit=domain.y
        )
        if name == "faded":
            frame.to_parquet(folder / "faded.parquet")
        else:
            frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.fixture(scope="session")
def comparison(domains: dict[str, Domain]) -> Comparison:
    return compare(
        [domains["tilted"], domains["faded"]],
        domains["shifted"],
        warmup=0.3,
        methods=METHODS,
        peers="none",
    )
