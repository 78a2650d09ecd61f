"""How large a model of our own learner may be: `size="full"`, or `size="small"` for thousands of targets."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.core.errors import unknown


@dataclass(frozen=True)
class Size:
    """Bounds on what a model keeps, whatever the data.

    landmarks: of the kernel, at least, and a class, and at most. white, free, pca: directions of these spaces (`recent`
    has those of pca). near: directions of the local heads in the input. pool, source_rows, target_rows: rows
    that are kept.
    """

    landmarks: tuple[int, int, int]
    white: int
    free: int
    pca: int
    near: int
    pool: int
    source_rows: int
    target_rows: int

    def landmarks_for(self, classes: int) -> int:
        """More classes, more landmarks.

        >>> [SIZES["full"].landmarks_for(K) for K in (2, 50, 200)]
        [500, 750, 1000]
        """
        least, each, most = self.landmarks
        return min(max(least, each * classes), most)


SIZES = {
    "full": Size((500, 15, 1000), white=500, free=300, pca=100, near=1024, pool=1000, source_rows=2000, target_rows=1000),
    "small": Size((150, 2, 200), white=128, free=64, pca=24, near=96, pool=250, source_rows=800, target_rows=250),
}


def size_of(name: str | None) -> Size:
    """By name; None is the full one."""
    if name is not None and name not in SIZES:
        raise unknown("size", name, list(SIZES))
    return SIZES[name or "full"]
