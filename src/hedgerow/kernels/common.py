"""What the compiled loops share."""

from __future__ import annotations

import numpy as np

SUMS = {"reassoc", "contract", "nsz"}  # what vector sums need of fast-math; NaN and infinity keep their meaning
EVEN = np.empty(0)  # no weights: every label counts one
SCALE = 2.0**11  # of a unit vector in whole numbers (`kernels/near.py`); here, so that reading it compiles nothing
