"""Five domains of real handwritten digits, embedded: scikit-learn's 1797 images of 8 x 8, distorted in five ways.

The handwriting is real, the differences between the domains are computed: no second scanner or camera took part.
Every image belongs to exactly one domain: of each class, the images are dealt in turn, one to each domain, in the order
of the file. Then each domain's images pass through the same pipeline with its own settings,

    image -> erode -> turn -> move -> blur -> gain * image + glow * (0 at the left edge .. 1 at the right edge)

| domain    | thinning | turn | down  | right | blur | gain | glow | what it looks like                             |
|-----------|----------|------|-------|-------|------|------|------|------------------------------------------------|
| `tilted`  | 0        | +25  | 0     | 0     | 0    | 1    | 0    | the page lay askew                             |
| `blurred` | 0        | -18  | 0     | 0     | 0.5  | 1    | 0    | out of focus, and a little askew the other way |
| `faded`   | 0        | 0    | 0     | 1     | 0    | 0.7  | 3    | pale ink, stray light from the right           |
| `thin`    | 0.8      | 0    | -1    | 0     | 0    | 1    | 0    | a fine pen, the paper fed in too high          |
| `shifted` | 0        | 0    | 0.75  | 0     | 0    | 1    | 0    | the paper fed in too low                       |

Thinning is the share of a 2 x 2 grey erosion mixed into the image; turn is in degrees, positive counter-clockwise;
down, right and blur (the standard deviation of a Gaussian) are in pixels; gain has no unit, glow is in levels of ink
(0..16). Interpolation is linear, what comes in over the edge is 0, and nothing is random.

The settings were chosen, among some twenty, so that methods differ when rows are scaled as in the authors' code (row
min-max, then unit length): PA on the stream alone errs on nearly half of it, starting from the pooled sources helps,
and aligning the domains first helps again. Where each domain is z-scored first, all of them err less and lie closer
together. So these domains show how the methods work; they are no evidence of which is best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain

SIDE = 8  # the images are SIDE x SIDE pixels of 0..16 levels of ink


@dataclass(frozen=True)
class Scanner:
    """How one domain's images are distorted; the fields are the columns of the table above."""

    thinning: float = 0.0
    turn: float = 0.0
    down: float = 0.0
    right: float = 0.0
    blur: float = 0.0
    gain: float = 1.0
    glow: float = 0.0

    def take(self, images: Array) -> Array:
        """The images (n x 8 x 8), distorted; never below 0.

        >>> Scanner(gain=0.5).take(np.full((1, 8, 8), 16.0)).max()
        np.float64(8.0)
        """
        import scipy.ndimage as ndi

        if self.thinning:
            eroded = ndi.grey_erosion(images, size=(1, 2, 2))
            images = (1 - self.thinning) * images + self.thinning * eroded
        if self.turn:
            images = ndi.rotate(images, self.turn, axes=(1, 2), reshape=False, order=1)
        if self.down or self.right:
            images = ndi.shift(images, (0, self.down, self.right), order=1)
        if self.blur:
            images = ndi.gaussian_filter(images, (0, self.blur, self.blur), mode="constant")
        return np.asarray(self.gain * images + self.glow * np.linspace(0, 1, SIDE))


SCANNERS = {
    "tilted": Scanner(turn=25),
    "blurred": Scanner(turn=-18, blur=0.5),
    "faded": Scanner(right=1, gain=0.7, glow=3),
    "thin": Scanner(thinning=0.8, down=-1),
    "shifted": Scanner(down=0.75),
}


def deal(y: Array, hands: int) -> Array:
    """Which of the hands each row goes to: the k-th row of its class goes to hand k mod hands.

    >>> deal(np.array([7, 7, 3, 7, 3]), hands=2)
    array([0, 1, 0, 0, 1])
    """
    hand = np.empty(len(y), dtype=np.int64)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        hand[rows] = np.arange(len(rows)) % hands
    return hand


def digits() -> dict[str, Domain]:
    """The five domains: 64 features, ink levels from 0 up, labels 0..9.

    >>> digits()["faded"]
    Domain('faded', 359 x 64, 10 classes)
    """
    from sklearn.datasets import load_digits

    bundle: Any = load_digits()
    images, y = np.asarray(bundle.images, dtype=np.float64), np.asarray(bundle.target, dtype=np.int64)
    hand = deal(y, len(SCANNERS))
    names = [f"pixel_{row}_{column}" for row in range(SIDE) for column in range(SIDE)]
    return {
        name: Domain(name, scanner.take(images[hand == i]).reshape(-1, SIDE * SIDE), y[hand == i], feature_names=names)
        for i, (name, scanner) in enumerate(SCANNERS.items())
    }
