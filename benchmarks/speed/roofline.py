"""The machine's two limits, and where the parts of the library stand below them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hedgerow.align import refreshed
from hedgerow.kernels.rows import row_product
from speed import PIE, Row, gemm_rate, median_seconds, row, side_by_side

LARGE = 2**25  # doubles: 256 MiB, far beyond any cache
CACHE = 8 * 2**20  # bytes that a core of any recent server can keep near
REPEATS = 31


def measure() -> Iterator[Row]:
    """The roof, then points under it at PIE size."""
    rate, rate32, bandwidth = gemm_rate(), gemm_rate(np.float32), copy_rate()
    yield row(
        "the machine: matrix product, float64",
        "",
        [],
        ratio=rate / 1e9,
        unit="Gflop/s",
        roof={"flops": rate, "bytes": bandwidth, "cached": cached_rate(), "cache": CACHE},
        float32=rate32 / 1e9,
        copy=bandwidth / 1e9,
    )
    rng = np.random.default_rng(0)
    A = rng.normal(size=(PIE.m, PIE.n * PIE.d))
    yield projection("block of 256 rows projected (GEMM)", A, rng.normal(size=(256, PIE.m)))
    yield projection("one row projected (GEMV)", A, rng.normal(size=(1, PIE.m)))
    yield four_places(A, rng.normal(size=PIE.m))
    G = rng.normal(size=(PIE.K + 1, PIE.m)) / np.sqrt(PIE.m)
    yield refresh(np.ascontiguousarray(A[:, : PIE.d]), G)


def projection(what: str, A: np.ndarray, X: np.ndarray) -> Row:
    """Rows into all spaces at once."""
    out = np.empty((len(X), A.shape[1]))
    seconds = median_seconds(lambda: np.matmul(X, A, out=out), REPEATS)
    return point(what, 2 * len(X) * A.size, 8 * (X.size + A.size + out.size), seconds)


def four_places(A: np.ndarray, x: np.ndarray) -> Row:
    """The same row by the loop that the live path uses."""
    out = np.empty(A.shape[1])
    seconds = side_by_side(
        {"BLAS": lambda: np.dot(x, A, out=out), "ours": lambda: row_product(x, A, out)}, 10 * REPEATS
    )
    return row(
        "one row projected, four places of the matrix read in turn, against the BLAS",
        "",
        [],
        seconds,
        ratio=seconds["BLAS"] / seconds["ours"],
    )


def refresh(A: np.ndarray, G: np.ndarray) -> Row:
    """Woodbury: G G^T, G A, a k x k solve, and a product back."""
    (k, m), d = G.shape, A.shape[1]
    flops = 2 * k * k * m + 4 * k * m * d + 2 * k**3 // 3 + 2 * k * k * d
    seconds = median_seconds(lambda: refreshed(A, G, 1.0), REPEATS)
    return point("one source's refresh", flops, 8 * (2 * A.size + G.size), seconds)


def point(what: str, flops: float, moved: float, seconds: float) -> Row:
    """A row with a place under the roof."""
    return row(
        what,
        "",
        [],
        {"ours": seconds},
        unit="Gflop/s",
        ratio=flops / seconds / 1e9,
        roofline={"flops": flops, "bytes": moved, "seconds": seconds},
    )


def copy_rate() -> float:
    """Bytes a second read and written by a copy too large for the caches."""
    a = np.ones(LARGE)
    b = np.empty_like(a)
    return 2 * a.nbytes / median_seconds(lambda: np.copyto(b, a), 5)


def cached_rate() -> float:
    """Bytes a second read from an array that stays in the cache."""
    a = np.ones(CACHE // 16)
    return a.nbytes / median_seconds(lambda: np.dot(a, a), 101)
