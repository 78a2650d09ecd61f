"""How large a model of our own learner may be: `size="full"`, or `size="small"` for thousands of targets."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.core.errors import unknown

USUAL = 800  # features up to which more rows of the sources are kept
FEWEST, A_FEATURE = 200, 4  # landmarks of the kernel: at least so many, and so many a feature


@dataclass(frozen=True)
class Size:
    """Bounds on what a model keeps, whatever the data.

    landmarks: of the kernel. white, free, pca: directions of these spaces (`recent` has those of pca). near: features
    up to which local heads compare the input itself; beyond it, rows of `free`. pool, source_rows, target_rows: rows
    that are kept. half: maps are stored in half precision.
    """

    landmarks: int
    white: int
    free: int
    pca: int
    near: int
    pool: int
    source_rows: tuple[int, int]
    target_rows: int
    half: bool = False

    def source_rows_for(self, features: int) -> int:
        """More where there are few features, as a row then costs less.

        >>> [SIZES["full"].source_rows_for(m) for m in (64, 400, 800, 1024)]
        [6000, 4000, 2000, 2000]
        """
        least, most = self.source_rows
        return min(most, max(least, USUAL * least // max(features, 1)))

    def landmarks_for(self, features: int) -> int:
        """Fewer where there are few features: second-degree features of them are soon spanned.

        >>> [SIZES["full"].landmarks_for(m) for m in (10, 64, 800)]
        [200, 256, 1000]
        """
        return min(self.landmarks, max(FEWEST, A_FEATURE * features))


SIZES = {
    "full": Size(1000, white=500, free=300, pca=100, near=1024, pool=1000, source_rows=(2000, 6000), target_rows=1000),
    "small": Size(
        160, white=128, free=64, pca=16, near=64, pool=200, source_rows=(640, 640), target_rows=200, half=True
    ),
}


def size_of(name: str | None) -> Size:
    """By name; None is the full one."""
    if name is not None and name not in SIZES:
        raise unknown("size", name, list(SIZES))
    return SIZES[name or "full"]
