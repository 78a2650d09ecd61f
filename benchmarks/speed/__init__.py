"""What every section of the speed benchmark shares: timing side by side, rows, the sizes of the paper's tasks.

A section is a file here with `measure() -> Iterator[Row]`. It may say

    THREADS = None     # BLAS threads while it runs: 1 unless said; None leaves them as they are
    EXPLICIT = True    # runs only when named with --only

A row is a dict made by `row(...)`: what was measured, numbers by name, the limits that the numbers are to keep, raw
medians in seconds. `shown` names numbers without a limit that the table has too. A `curve` (x, y, labels) or a
`roofline` point (flops, bytes, seconds) in it is drawn by the fold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

Row = dict[str, Any]
Work = Callable[[], object]
Limit = tuple[str, str, float]  # name of a number in the row, ">=" or "<=" or "<" or "==", bound


class Size(NamedTuple):
    """A task's shape: features, classes, dimension of a space, sources, labels between refreshes, stream length."""

    name: str
    m: int
    K: int
    d: int
    n: int
    every: int
    stream: int


PIE = Size("PIE", m=1024, K=68, d=100, n=4, every=50, stream=2300)
OFFICE = Size("Office+Caltech", m=800, K=10, d=100, n=3, every=10, stream=670)


def row(
    what: str,
    to_reach: str,
    limits: Sequence[Limit],
    seconds: Mapping[str, float] | None = None,
    unit: str = "x",
    **numbers: Any,
) -> Row:
    """One line of the table. The first limit names the number that is shown; `unit` follows it.

    >>> row("sum", ">= 2 x", [("ratio", ">=", 2.0)], {"naive": 2.0, "ours": 0.5}, ratio=4.0)["limits"]
    [('ratio', '>=', 2.0)]
    """
    missing = [name for name, _, _ in limits if name not in numbers]
    if missing:
        raise ValueError(f"{what}: limits on numbers that the row lacks: {missing}")
    head = {"what": what, "to_reach": to_reach, "limits": list(limits), "unit": unit, "seconds": dict(seconds or {})}
    return head | {name: _plain(value) for name, value in numbers.items()}


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as JSON can hold them."""
    if isinstance(value, np.generic):
        return value.item()
    return value.tolist() if isinstance(value, np.ndarray) else value


def seconds_of(work: Work) -> float:
    """The time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median_seconds(work: Work, repeats: int = 7, warm: int = 1) -> float:
    """The median time of a call, after `warm` calls that do not count."""
    return side_by_side({"": work}, repeats, warm)[""]


def side_by_side(works: Mapping[str, Work], repeats: int = 7, warm: int = 1) -> dict[str, float]:
    """Median seconds of each, one after the other in every repeat, so that a slow minute slows them all."""
    for _ in range(warm):
        for work in works.values():
            work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(seconds_of(work))
    return {name: median(found) for name, found in times.items()}


def gemm_rate(dtype: Any = np.float64, size: int = 1536, repeats: int = 5) -> float:
    """Flops a second of one large matrix product, the best of some: the limit that the share of the limit refers to."""
    A = np.random.default_rng(0).normal(size=(size, size)).astype(dtype)
    out = np.empty_like(A)
    return 2 * size**3 / min(seconds_of(lambda: np.matmul(A, A, out=out)) for _ in range(repeats + 1))


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Least-squares slope of log y over log x: 1 is linear growth.

    >>> round(slope([1, 2, 4], [3, 6, 12]), 6)
    1.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def domains(size: Size, rows: int, warmup: int, seed: int = 0, dtype: Any = np.float64) -> tuple[list[Any], Any, Any]:
    """Sources, unlabelled target rows and a stream of this shape: classes about centres that every domain moves."""
    from hedgerow import Domain

    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(size.K, size.m)) / np.sqrt(size.m)

    def domain(name: str, N: int) -> Any:
        codes = rng.permutation(np.arange(N) % size.K)
        shift = rng.normal(size=size.m) / np.sqrt(size.m)
        X = centres[codes] + 0.5 * shift + rng.normal(size=(N, size.m)) / np.sqrt(size.m)
        return Domain(name, X.astype(dtype), codes)

    sources = [domain(f"source {i}", rows) for i in range(size.n)]
    target = domain("target", warmup + size.stream)
    return sources, target.rows(np.arange(warmup)), target.rows(np.arange(warmup, len(target)))


def fitted(size: Size, rows: int = 400, warmup: int = 200, **options: Any) -> tuple[Any, Any, Any]:
    """ODDM (or `method=`) after one round of its offline stage on such a task, and the stream's rows and labels."""
    from hedgerow.experiment.classifiers import classifier

    sources, unlabelled, stream = domains(size, rows, warmup)
    given = {"method": "oddm", "reading": "general", "dim": size.d, "rounds": 1, "refresh_every": size.every} | options
    clf = classifier(preprocess="unit", classes=np.arange(size.K), **given)
    return clf.fit_domains(sources, unlabelled), stream.X, np.asarray(stream.y)
