r"""The spaces that the experts score rows in: fixed, or moving with the labels by Eq. 13 in one of two forms.

| spaces          | A_i                                | refresh, every T_w labels                    |
|-----------------|------------------------------------|----------------------------------------------|
| `Spaces`        | as the aligner found them, or none | -                                            |
| `MovingSpaces`  | follow the labels                  | low-rank, see below                          |
| `PrintedSpaces` | follow the labels                  | pinv(I + mu G^T G) A, as the paper prints it |

Each also keeps the moments of the target, because the refresh is made of them.

The refresh of the projections (Eq. 13) in its low-rank form, for blocks of any number of rows:

.. math::
    A_i \leftarrow (I + \mu G_i^T G_i)^{-1} A_i = A_i - \mu G_i^T C_i, \qquad
    (I + \mu G_i G_i^T) C_i = G_i A_i \qquad \text{every } T_w \text{ labels}

The equation itself is `align.refreshed`. :math:`G_i = D_i (M_i - L T)` holds the K+1 gaps: M_i the means of source i,
T = [sum of all rows; class sums] of the target, L = 1/counts, D_i a diagonal of weights (a class that one side lacks
has no gap): Eq. 10 and 11.

1. A refresh takes from A_i combinations of the rows of M_i and T. So what moves is written down, not carried out: with
   S, the class sums of the rows since T was written last, and J, which adds them up (J = [I, ones for the sum of all
   rows and at the class of each row of S], J [T; S] being the target's sums of now),

   .. math:: A_i = H_i + M_i^T P_i + [T; S]^T Q_i, \qquad P_i \mathrel{-}= \mu D_i C_i, \quad
             Q_i \mathrel{+}= \mu J^T L D_i C_i

2. A row x is projected by two products, H^T x and B x with B = [M; T; S].
3. The matrices of a refresh are products of rows of B with each other and with A: :math:`M_i M_i^T`, which never
   changes; W = [T; S] B^T, to which a new row of S adds its products with B, the sums of B x over its rows; and M_i A_i
   and T A_i. To T A_i a row adds its projection, A_i^T x. A refresh takes :math:`\mu M_i G_i^T C_i` and
   :math:`\mu T G_i^T C_i` from them, and :math:`M_i G_i^T`, :math:`T G_i^T` and :math:`G_i G_i^T` follow from M_i M_i^T
   and W (`kernels.experts.gaps`).

No matrix of m x m or rows x rows is built, and nothing of size m is written but S.

When S is full, T becomes J [T; S] and H takes what A would lose by that, S^T (Q_S - J_S^T Q_T). Where fewer dense rows
come at once than lie between two refreshes, H becomes A at each refresh, and a row is projected by H alone until the
next. Rounding adds up along this path, so after `ANCHOR` refreshes all products are computed anew from A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np

from hedgerow import kernels
from hedgerow.align import refreshed
from hedgerow.core.arrays import Array, Matrix, Order, dense, is_sparse, on_large_pages
from hedgerow.core.errors import InputError
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.moments import KAPPA, UNSEEN, Moments, gap, gap_weights, or_one
from hedgerow.methods import ANSWERS

FIXED_BLOCK = 1024
MOVING_BLOCK = (
    128  # rows; in a longer block the products of its rows with its own class sums take over
)
ANCHOR = 128  # refreshes between two computations from scratch
ROOM = 128  # class sums that are pending at most


@dataclass(frozen=True)
class Refresh:
    """How the projections follow the labels: every `every` labels (T_w), with strength mu; see `moments.gap`."""

    every: int = 10
    mu: float = 1.0
    unseen: str = "zero"
    inverse: str = "woodbury"
    kappa: float = KAPPA

    def __post_init__(self) -> None:
        if self.every < 1 or not self.mu >= 0 or not self.kappa > 0 or self.unseen not in UNSEEN:
            raise InputError(
                f"{self}: every must be at least 1, mu not negative, kappa positive, unseen a known rule"
            )
        if self.inverse not in ANSWERS["inverse"]:
            raise InputError(
                f"inverse={self.inverse!r}: use one of {', '.join(ANSWERS['inverse'])}"
            )


class LastRow:
    """What was computed for the dense row that came last: a row is predicted, and then its label is learned."""

    def __init__(self) -> None:
        self._kept: tuple[bytes, Array] | None = None

    def of(self, X: Matrix, compute: Callable[[], Array]) -> Array:
        """`compute()`, or what it gave for the same row; of several rows and of sparse ones nothing is kept."""
        if is_sparse(X) or len(X) != 1:
            return compute()
        row = X.tobytes()
        if self._kept is None or self._kept[0] != row:
            self._kept = row, compute()
        return self._kept[1]

    def forget(self) -> None:
        """To be called when what is computed would change."""
        self._kept = None


def add_rows(target: Moments, X: Matrix, y: Array, weight: Array) -> None:
    """Labelled rows join in place, dense ones by a compiled loop; `weight` empty: one each."""
    if is_sparse(X):
        target.add(X, y, weight if len(weight) else None)
    else:
        kernels.experts.add_moments(X, y, weight, target.counts, target.totals)


class LowRankRefresh:
    """n projections side by side in one m x nd matrix H, and the low-rank part by which they moved since.

    `target` is updated in place along with them. Names are those of the derivation at the head of this file.
    """

    def __init__(
        self,
        H: Array,
        sources: list[Moments],
        target: Moments,
        refresh: Refresh,
        order: Order = "C",
    ) -> None:
        n = len(sources)
        K1 = len(target.counts)
        (m, width) = H.shape
        self._shape = n, K1, width // n
        self.H = H
        self.target = target
        self.refresh = refresh
        self.order = order
        self.refreshes = 0
        self.counts = np.stack([source.counts for source in sources])
        # order "F": what belongs to one feature lies together, as sparse rows need it
        self.basis = on_large_pages((n * K1 + K1 + ROOM, m), H.dtype, order)
        self.basis[:] = 0
        M, self.TS = np.split(self.basis, [n * K1])
        M[:] = np.vstack([source.means for source in sources])
        self.TS[:K1] = target.totals
        M = M.reshape(n, K1, m)
        A = H.reshape(m, n, -1).transpose(1, 0, 2)
        self.MM = np.asarray(M @ M.transpose(0, 2, 1), dtype=np.float64)
        self.MA = M @ A
        self.TA = np.zeros_like(self.MA)
        self.W = np.zeros((K1 + ROOM, len(self.basis)))
        met = np.flatnonzero(target.counts)  # all other rows of T are zero
        self.TA[:, met] = self.TS[met] @ A
        self.W[met] = self.TS[met] @ self.basis.T
        self._room = np.empty((3, *self.MM.shape))
        self.P = np.zeros_like(self.MA)
        self.Q = np.zeros((K1 + ROOM, width), dtype=H.dtype)
        self._moved = False  # whether P and Q are anything but zero
        self._classes = np.empty(K1 + ROOM, dtype=np.int64)  # of the rows of S
        # rows of T and S in use, and how many of them W knows of
        self._used = self._joined = K1
        self._touched: list[Array] = []  # the features of pending sparse rows
        self._last = LastRow()

    @property
    def stale(self) -> bool:
        """Whether it is time to compute all products anew, so that rounding does not add up further."""
        return self.refreshes >= ANCHOR

    def can_wait(self, rows: int, seen: int) -> bool:
        """Whether so many rows need no product but that with H: nothing has moved, no refresh is due, S has room."""
        due = seen % self.refresh.every + rows >= self.refresh.every
        return not (due or self._moved or self.stale or self._used + rows > len(self.TS))

    def add_to(self, H: Array) -> None:
        """Add the low-rank parts to H in place: what was H is then A."""
        if not self._moved:
            return
        n, K1, d = self._shape
        add_product(H, self.TS[: self._used], self.Q[: self._used])
        for i, P in enumerate(self.P):
            H.reshape(-1, n, d)[:, i] += self.basis[i * K1 : (i + 1) * K1].T @ P

    def project(self, X: Matrix) -> Array:
        """A_i^T x of rows (B x nd) that are only predicted; nothing of size m is written."""
        Z = self._last.of(X, lambda: product(X, self.H))
        if not self._moved:
            return Z
        Z = Z.copy()
        self._add_parts(Z, self._products(X), self._used)
        return Z

    def learn(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Array:
        """A_i^T x of rows (B x nd), each by the projections before its label; then the labels are learned."""
        even = kernels.EVEN if weight is None else weight
        windows, group, classes = self._cut(y, seen)
        if self._used + len(classes) > len(self.TS):
            self._close()
        Z = self._last.of(X, lambda: product(X, self.H))
        self._last.forget()
        before = used = self._used
        XB = None
        if self._moved or len(windows) > 1:  # else W can wait for the refresh
            self._join()
            self._add_sums(X, group, classes, even)
            XB = self._products(X)
            sums = np.zeros((len(classes), XB.shape[1]), dtype=XB.dtype)
            kernels.experts.group_sums(XB, group, even, sums)
            self._join(sums)
        else:
            self._add_sums(X, group, classes, even)
        refreshes = self.refreshes
        for first, last, stop, ends in windows:
            here = slice(first, last)
            if XB is not None:
                self._add_parts(Z[here], XB[here], used)
            kernels.experts.add_projections(Z[here], y[here], even[here], self.TA)
            add_rows(self.target, X[here], y[here], even[here])
            used = before + stop
            if ends:
                self._join()
                self._refresh(used)
        if (
            self.refreshes > refreshes and len(y) < self.refresh.every and self.order == "C"
        ):  # dense rows, one by one
            self.add_to(self.H)
            self.P[:] = 0
            self.Q[:] = 0
            self._moved = False
            self._close()
        return Z

    def _cut(self, y: Array, seen: int) -> tuple[list[tuple[int, int, int, bool]], Array, Array]:
        """A block cut into windows of T_w labels, `seen` before it.

        Of each window its rows first:last, where its class sums end, and whether a refresh ends it; the class sum that
        each row adds to (-1: none), and the class of each such sum.
        """
        group = np.full(len(y), -1)
        windows = []
        classes: list[int] = []
        place: dict[int, int] = {}  # of the class sums of this window
        first = 0
        for t, label in enumerate(y.tolist()):
            if label >= 0:
                seen += 1
                if label not in place:
                    place[label] = len(classes)
                    classes.append(label)
                group[t] = place[label]
            ends = label >= 0 and seen % self.refresh.every == 0
            if ends or t + 1 == len(y):
                windows.append((first, t + 1, len(classes), ends))
                first = t + 1
                place.clear()
        return windows, group, np.array(classes, np.int64)

    def _add_sums(self, X: Matrix, group: Array, classes: Array, weight: Array) -> None:
        """The class sums of a block are pending."""
        own = slice(self._used, self._used + len(classes))
        self._classes[own], self._used = classes, own.stop
        S = self.TS[own]
        if not is_sparse(X):
            kernels.experts.group_sums(X, group, weight, S)
            return
        nonzeros = np.diff(X.indptr)
        of = np.repeat(group, nonzeros)
        counted = X.data * np.repeat(weight, nonzeros) if len(weight) else X.data
        np.add.at(S, (of[of >= 0], X.indices[of >= 0]), counted[of >= 0])
        self._touched.append(np.unique(X.indices))

    def _products(self, X: Matrix) -> Array:
        """X B^T, of the rows of B in use; of sparse rows with all, which need no copy of B."""
        unused = len(self.TS) - self._used if self.order == "C" else 0
        return product(X, self.basis[: len(self.basis) - unused].T)

    def _add_parts(self, Z: Array, XB: Array, used: int) -> None:
        """To rows projected by H, the parts of M, T and S, of which `used` rows can have moved A."""
        if not self._moved:
            return
        n, K1, d = self._shape
        Z += XB[:, n * K1 : n * K1 + used] @ self.Q[:used]
        own = XB[:, : n * K1].reshape(-1, n, K1).transpose(1, 0, 2) @ self.P
        Z.reshape(-1, n, d)[...] += own.transpose(1, 0, 2)

    def _join(self, sums: Array | None = None) -> None:
        """W takes the class sums that it does not know of yet; `sums`: their products with B."""
        new = slice(self._joined, self._used)
        if new.start < new.stop:
            SB = self._products(self.TS[new]) if sums is None else sums
            first = len(self.basis) - len(self.TS)
            self.W[new, : SB.shape[1]] = SB
            self.W[: new.stop, first + new.start : first + new.stop] = SB[:, first:][
                :, : new.stop
            ].T
            self._joined = new.stop

    def _folded(self, used: int) -> Array:
        """The products of T with B, T having taken the first of the class sums that are pending."""
        K1 = self._shape[1]
        out = self.W[:K1].copy()
        kernels.experts.fold(self.W, self._classes[K1:used], out)
        return out

    def _refresh(self, used: int) -> None:
        """Eq. 13 for all sources in products alone, T and S having `used` rows."""
        from scipy.linalg.lapack import dposv

        rule = self.refresh
        mu = float(rule.mu)
        share = 1 / or_one(self.target.counts)
        D = gap_weights(self.counts, self.target.counts, rule.unseen, rule.kappa)
        W = self._folded(used)
        MG, TG, R = self._room
        C = np.empty(self.P.shape)
        kernels.experts.gaps(self.MM, W, self.MA, self.TA, share, D, mu, self._room, C)
        for i in range(len(C)):
            C[i] = dposv(R[i].T, C[i])[1]
        self.MA -= MG @ C
        self.TA -= TG @ C
        kernels.experts.move(C, D, share, mu, self._classes[len(share) : used], self.P, self.Q)
        self._moved, self.refreshes = True, self.refreshes + 1

    def _close(self) -> None:
        """T takes the class sums that are pending, and H what A would lose by that."""
        self._join()
        K1 = self._shape[1]
        S = slice(K1, self._used)
        classes = self._classes[S]
        at = np.unique(np.concatenate(self._touched)) if self._touched else slice(None)
        if self._moved:
            lost = self.Q[S] - self.Q[0] - self.Q[1 + classes]
            if self._touched:
                self.H[at] += self.TS[S, at].T @ lost
            else:
                add_product(self.H, self.TS[S], lost)
        self.TS[:K1, at] = self.target.totals[:, at]
        self.TS[S, at] = 0
        self.W[:K1] = self._folded(self._used)
        self.Q[S] = 0
        self._used = self._joined = K1
        self._touched.clear()
        self._last.forget()


def product(X: Matrix, M: Array) -> Array:
    """X M, of one dense row by a compiled loop."""
    return np.asarray(X @ M if is_sparse(X) else kernels.rows.times(X, M))


def add_product(H: Array, S: Array, U: Array) -> None:
    """H += S^T U in place.

    >>> H = np.zeros((2, 1)); add_product(H, np.array([[1.0, 2.0]]), np.array([[3.0]])); H.ravel().tolist()
    [3.0, 6.0]
    """
    from scipy.linalg.blas import dgemm, sgemm

    if len(S):
        gemm = dgemm if H.dtype == np.float64 else sgemm
        gemm(1.0, U.T, S.T, beta=1.0, c=H.T, trans_b=True, overwrite_c=True)


# -- the spaces --------------------------------------------------------------------------------------------------------


class Spaces:
    """Rows in every space: x -> A_i^T x, or x itself; labels do not move them."""

    block = FIXED_BLOCK  # rows that are best taken at once

    def __init__(self, A: Array | None, target: Moments) -> None:
        self.A = A  # m x n x d
        self.target = target
        self._last = LastRow()

    def project(self, X: Matrix) -> Array:
        """Preprocessed rows in every space (B x n x d; B x 1 x m where there is no projection); nothing is changed."""
        if self.A is None:
            return X[:, None] if isinstance(X, np.ndarray) else dense(X)[:, None]
        H = self.A.reshape(len(self.A), -1)
        Z = self._last.of(X, lambda: product(X, H))
        return Z.reshape(X.shape[0], *self.A.shape[1:])

    def learn(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Array:
        """Rows in every space, each before its label, `seen` labels having come before; then the labels are learned."""
        add_rows(self.target, X, y, kernels.EVEN if weight is None else weight)
        return self.project(X)

    def projection(self, i: int) -> Array | None:
        """A_i as it is now, or that of all; None is the identity."""
        return None if self.A is None else self.A[:, min(i, self.A.shape[1] - 1)]

    def flush(self) -> None:
        """Do all pending work: here there is none."""


class MovingSpaces(Spaces):
    """Projections that follow the labels; the products that a refresh needs are kept between blocks."""

    A: Array

    def __init__(self, A: Array, sources: list[Moments], target: Moments, refresh: Refresh) -> None:
        """A: m x n x d; `sources`: the moments of each space's. A and target change in place."""
        super().__init__(A, target)
        self.sources = sources
        self.refresh = refresh
        self.H = A.reshape(len(A), -1)
        self.block = _whole_windows(refresh.every)
        self._moves: LowRankRefresh | None = None

    def project(self, X: Matrix) -> Array:
        """Rows in every space (B x n x d)."""
        Z = product(X, self.H) if self._moves is None else self._moves.project(X)
        return Z.reshape(-1, *self.A.shape[1:])

    def learn(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Array:
        """Rows as A was before their labels, refreshed after every T_w-th."""
        order: Order = "F" if is_sparse(X) else "C"
        moves = self._moves
        if moves is not None and moves.order == order and moves.can_wait(len(y), seen):
            Z = moves.learn(X, y, weight, seen)
        else:
            with one_blas_thread:
                if moves is None or moves.stale or moves.order != order:
                    self.flush()
                    self._moves = moves = LowRankRefresh(
                        self.H, self.sources, self.target, self.refresh, order
                    )
                Z = moves.learn(X, y, weight, seen)
        return Z.reshape(-1, *self.A.shape[1:])

    def projection(self, i: int) -> Array:
        """A_i as it is now, in an array of its own."""
        H = self.H.copy()
        if self._moves is not None:
            self._moves.add_to(H)
        return H.reshape(self.A.shape)[:, min(i, self.A.shape[1] - 1)]

    def flush(self) -> None:
        """Afterwards H is A itself. The products are dropped: a learner loaded from a file has none either, and both
        must compute the same.
        """
        if self._moves is not None:
            self._moves.add_to(self.H)
        self._moves = None


class PrintedSpaces(Spaces):
    """Eq. 13 as printed, with the pseudo-inverse: m^3 a refresh, and the same numbers."""

    A: Array

    def __init__(self, A: Array, sources: list[Moments], target: Moments, refresh: Refresh) -> None:
        super().__init__(A, target)
        self.sources = sources
        self.refresh = refresh

    def learn(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Array:
        """Cut after every T_w-th label."""
        due = np.flatnonzero(((seen + np.cumsum(y >= 0)) % self.refresh.every == 0) & (y >= 0)) + 1
        parts = []
        for a, b in pairwise(sorted({0, len(y), *due.tolist()})):
            parts.append(
                super().learn(X[a:b], y[a:b], None if weight is None else weight[a:b], seen)
            )
            if b in due:
                with one_blas_thread:
                    self._refresh()
        return np.concatenate(parts)

    def _refresh(self) -> None:
        rule = self.refresh
        for i, source in enumerate(self.sources):
            G = gap(source, self.target, rule.unseen, rule.kappa)
            if not np.isfinite(
                rule.mu * np.square(G).sum()
            ):  # of such numbers a decomposition may never end
                raise np.linalg.LinAlgError("class means too far apart to be squared")
            self.A[:, i] = refreshed(self.A[:, i], G, rule.mu, rule.inverse)
        self._last.forget()


def on_pages(A: Array) -> Array:
    """A copy of the projections that is fast to read row by row."""
    H = on_large_pages(A.shape, A.dtype)
    H[:] = A
    return H


def pooled(sources: list[Moments], spaces: int) -> list[Moments]:
    """The moments of each space's source; one space for all sources has those of all rows."""
    return sources if len(sources) == spaces else [reduce(Moments.merge, sources)]


def _whole_windows(every: int) -> int:
    """About `MOVING_BLOCK` rows, in whole windows: a window cut in two would need its class sums twice."""
    return max(1, MOVING_BLOCK // every) * every if every <= MOVING_BLOCK else MOVING_BLOCK
