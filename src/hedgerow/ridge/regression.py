"""Ridge regressions with a prior, and what they learn: class targets.

Several heads share one P (d x d); their weights stand side by side in M (d x q). A row z with targets y:

    k = P z / (r + z' P z),   M += k (y - z' M),   P -= k z' P           r = 1/weight of the row

With g = P z/root and e = (y - z' M)/root, root^2 = r + z' P z, that is M += g e', P -= g g'. The rows g and e are
pending until `flush` adds them up in one product. Until then P stands for P - G' G and M for M + G' E
(`kernels/ridge.py`). So one instance reads P once and never writes it, and a long block reads and writes it once. P and
M start as priors that many models share; the first flush makes copies of them.

P is symmetric, and only its upper triangle is kept up to date: an update is half the work, and a live step reads half.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.preprocess import unit

FAR = 1e100  # a row is shortened where the root of z' P z could be larger
RIDGE = 1e-12  # of the largest diagonal of a Gram matrix: a smaller ridge would be lost in its rounding


class Regression:
    """P, M and pending rows G, E; a `shared` P and M are a prior's until the first flush."""

    def __init__(
        self, P: Array, M: Array, G: Array | None = None, E: Array | None = None, *, shared: bool = False
    ) -> None:
        self.P, self.M, self.shared = P, M, shared
        self.G = np.empty((0, len(P))) if G is None else G
        self.E = np.empty((0, M.shape[1])) if E is None else E
        self.pending = np.array([len(self.G)])
        self.diagonal, self.top = np.empty(len(P)), np.empty(1)
        self.measure()

    def measure(self) -> None:
        """After P has changed: its diagonal, and the largest number on it, infinity if one is negative by rounding."""
        self.diagonal[:] = self.P.diagonal()
        self.top[0] = self.diagonal.max(initial=0.0) if self.diagonal.min(initial=np.inf) > 0 else np.inf

    def doubtful(self, Z: Array, noise: float) -> Array:
        """The rows that rounding does not allow to be learned with this noise."""
        from hedgerow.kernels.ridge import ROUNDING

        with np.errstate(over="ignore"):  # infinity is large enough
            spread = (Z * Z) @ self.diagonal
        return np.asarray((ROUNDING * spread > noise) | (self.top[0] == np.inf))

    def update(self, U: Array, Y: Array, noise: float, sign: float = 1.0) -> bool:
        """Learn rows at once, with these targets and this noise; sign -1: take them out again, if they were so learned.

        With S = r I + sign U P U' = L L', E = L^-1 (Y - U M), G = L^-1 U P it is P -= sign G' G, M += sign G' E.
        False, and nothing done, if that leaves no covariance.

        >>> regression = Regression(np.eye(1), np.zeros((1, 1)))
        >>> regression.update(np.ones((1, 1)), np.ones((1, 1)), 1.0), regression.M.round(6).item()
        (True, 0.5)
        """
        self.flush()
        PU = symmetric_product(U, self.P)
        S = sign * (PU @ U.T)
        S.flat[:: len(S) + 1] += noise
        try:
            L = np.linalg.cholesky(S)
        except np.linalg.LinAlgError:
            return False
        self.own()
        E, G = solve_lower(L, Y - U @ self.M), solve_lower(L, PU)
        add_product(self.M, G, sign * E)
        add_gram(self.P, G, -sign)
        self.measure()
        return True

    def move(self, U: Array, change: Array) -> Array:
        """M += P U' change: as if the targets of rows learned before had changed by this, times their weight; U P."""
        self.flush()
        self.own()
        PU = symmetric_product(U, self.P)
        add_product(self.M, PU, change)
        return PU

    def leverage(self, U: Array) -> Array:
        """u' P u of each row."""
        self.flush()
        return np.asarray(np.einsum("ij,ij->i", symmetric_product(U, self.P), U))

    def flush(self) -> None:
        """Pending rows go into M and P: one product each."""
        n = int(self.pending[0])
        if n:
            self.own()
            add_product(self.M, self.G[:n], self.E[:n])
            add_gram(self.P, self.G[:n], -1.0)
            self.pending[0] = 0
            self.measure()

    def fade(self, keep: float, P: Array, M: Array) -> None:
        """Move M and P some way back to where they started: old labels fade."""
        self.flush()
        self.own()
        self.M *= keep
        self.M += (1 - keep) * M
        self.P *= keep**2
        self.P += (1 - keep**2) * P
        self.measure()

    def own(self) -> None:
        """Copy P and M, if they are still the shared prior's."""
        if self.shared:
            self.P, self.M, self.shared = self.P.copy(), self.M.copy(), False


class Regressions:
    """Regressions side by side: pending rows in flat arrays, as compiled loops take them; each has views of these."""

    def __init__(self, each: Sequence[Regression], room: int) -> None:
        """`room`: pending rows that there are places for."""
        self.each, self.room = each, 0
        self.d_ends = np.cumsum([len(regression.P) for regression in each])
        self.q_ends = np.cumsum([regression.M.shape[1] for regression in each])
        self.d, self.q = _columns(self.d_ends), _columns(self.q_ends)
        self.pending = np.array([regression.pending[0] for regression in each])
        self.diagonal, self.top = np.empty(self.d_ends[-1]), np.empty(len(each))
        for s, regression in enumerate(each):
            regression.pending = self.pending[s : s + 1]
            regression.diagonal, regression.top = self.diagonal[self.d[s]], self.top[s : s + 1]
            regression.measure()
        self.make_room(room)

    def shorten(self, Z: Array) -> Array:
        """Shorten rows so long that z' P z is no number to compute with, in place; by how much (rows x spaces)."""
        factors = np.ones((len(Z), len(self.each)))
        if _largest(Z) * float(self.diagonal.max(initial=0.0)) ** 0.5 > FAR:
            for s, d in enumerate(self.d):
                root = np.sqrt(self.diagonal[d].max(initial=0.0))
                factors[:, s] = 1 / np.maximum(np.abs(Z[:, d]).max(axis=1, initial=0.0) / FAR * root, 1.0)
                Z[:, d] *= factors[:, s : s + 1]
        return factors

    def doubtful(self, Z: Array, weight: Array) -> bool:
        """Whether rounding could matter for some of these rows."""
        from hedgerow.kernels.ridge import ROUNDING

        return not ROUNDING * float(self.top.max()) * Z.shape[1] * _largest(Z) ** 2 * float(weight.max()) <= 1

    def fits(self, Z: Array) -> Array:
        """Z M, space by space."""
        from hedgerow.kernels.rows import row_product

        MZ = np.empty((len(Z), self.q_ends[-1]))
        for regression, d, q in zip(self.each, self.d, self.q, strict=True):
            if len(Z) == 1:
                row_product(Z[0, d], regression.M, MZ[0, q])
            else:
                np.matmul(Z[:, d], regression.M, out=MZ[:, q])
        return MZ

    def covariances(self, Z: Array, until: Sequence[int] | None = None) -> Array:
        """Z P, space by space; of each only the first `until` rows, if any are named."""
        from hedgerow.kernels.rows import symmetric_row

        PZ = np.empty_like(Z)
        for regression, d, n in zip(self.each, self.d, until or [len(Z)] * len(self.d), strict=True):
            if len(Z) == 1:
                symmetric_row(regression.P, Z[0, d], PZ[0, d])
            else:
                PZ[:n, d] = symmetric_product(Z[:n, d], regression.P)
        return PZ

    def make_room(self, room: int) -> None:
        """Places for exactly so many pending rows, of which there are no more."""
        if room == self.room:
            return
        self.room, old = room, [(regression.G, regression.E) for regression in self.each]
        self.G, self.E = np.empty(room * self.d_ends[-1]), np.empty(room * self.q_ends[-1])
        columns = zip(self.d, self.q, strict=True)
        for regression, (G, E), n, (d, q) in zip(self.each, old, self.pending.tolist(), columns, strict=True):
            regression.G = self.G[room * d.start : room * d.stop].reshape(room, -1)
            regression.E = self.E[room * q.start : room * q.stop].reshape(room, -1)
            regression.G[:n], regression.E[:n] = G[:n], E[:n]

    def flush(self, least: int = 1) -> None:
        """Fold the pending rows of each that has at least so many."""
        for regression, n in zip(self.each, self.pending.tolist(), strict=True):
            if n >= least:
                regression.flush()


def _largest(Z: Array) -> float:
    return max(float(Z.max(initial=0.0)), -float(Z.min(initial=0.0)))


def _columns(ends: Array) -> list[slice]:
    """The columns of each, by where they end."""
    return [slice(a, b) for a, b in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]


def symmetric_product(Z: Array, P: Array) -> Array:
    """Z P for a symmetric P (C-contiguous) of which only the upper triangle is read.

    >>> symmetric_product(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 2.0], [9.0, 3.0]])).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    from scipy.linalg.blas import dsymm

    # BLAS takes no matrix without columns, which is what rows of zeros leave
    return np.asarray(dsymm(1.0, P.T, np.ascontiguousarray(Z).T, lower=1).T) if len(P) else Z


def solve_lower(L: Array, B: Array) -> Array:
    """L^-1 B for a lower triangle L (both C-contiguous; B is overwritten).

    >>> solve_lower(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([[4.0], [5.0]])).tolist()
    [[2.0], [3.0]]
    """
    from scipy.linalg.blas import dtrsm

    return np.asarray(dtrsm(1.0, L.T, B.T, side=1, overwrite_b=True).T)


def add_product(M: Array, G: Array, E: Array) -> None:
    """M += G' E in place (M C-contiguous).

    >>> M = np.ones((1, 2))
    >>> add_product(M, np.array([[2.0]]), np.array([[1.0, 3.0]]))
    >>> M.tolist()
    [[3.0, 7.0]]
    """
    from scipy.linalg.blas import dgemm

    if not M.size:
        return
    out = dgemm(1.0, np.ascontiguousarray(E).T, np.ascontiguousarray(G).T, beta=1.0, c=M.T, trans_b=1, overwrite_c=True)
    if not np.shares_memory(out, M):
        raise ValueError("M must be a C-contiguous matrix of doubles")


def add_gram(P: Array, G: Array, sign: float) -> None:
    """P += sign G' G in the upper triangle, in place (P C-contiguous): no second matrix of its size.

    >>> P = np.eye(2)
    >>> add_gram(P, np.array([[0.5, 1.0]]), -1.0)
    >>> np.triu(P).tolist()
    [[0.75, -0.5], [0.0, 0.0]]
    """
    from scipy.linalg.blas import dsyrk

    out = dsyrk(sign, np.ascontiguousarray(G).T, beta=1.0, c=P.T, lower=1, overwrite_c=True)
    if not np.shares_memory(out, P):
        raise ValueError("P must be a C-contiguous matrix of doubles")


def source_prior(G: list[Array], sums: list[Array], weights: Array, codes: Array, lam: float, trust: float) -> Array:
    """M_0 = (lam I + g sum_i w_i G_i)^-1 g sum_i w_i Z_i' C[y_i], from Gram matrices and class sums (mergeable).

    Shapes: G_i d x d, sums_i K x d, class targets `codes` K x q; result d x q.
    """
    d = len(G[0])
    gram = lam * np.eye(d)
    cross = np.zeros((d, codes.shape[1]))
    for w, g, s in zip(weights, G, sums, strict=True):
        gram += trust * w * g
        cross += trust * w * (s.T @ codes)
    return np.asarray(np.linalg.solve(_with_ridge(gram, lam), cross))


def deviation_prior(G: list[Array], d: int, lam: float, trust: float, tau: float) -> Array:
    """P_0 = (lam I + g sum_i G_i)^-1 + tau I: the sources' posterior, and a free deviation of the target's weights."""
    gram = lam * np.eye(d)
    for g in G:
        gram += trust * g
    return np.asarray(np.linalg.inv(_with_ridge(gram, lam)) + tau * np.eye(d))


def _with_ridge(gram: Array, lam: float) -> Array:
    """lam I + a Gram matrix, with a larger ridge where lam is lost in rounding; in place.

    >>> _with_ridge(np.array([[1e20, 1e20], [1e20, 1e20]]), 1.0)[0].tolist()
    [1.000000000001e+20, 1e+20]
    """
    least = RIDGE * gram.diagonal().max(initial=0.0)
    if least > lam:
        gram.flat[:: len(gram) + 1] += least
    return gram


# Which sources a head trusts, and its class targets: what its regression should say for a row of each class.
#
# One number a class (one-hot), or the class means of the sources in a basis of their span. A table is kept for the
# means only, in at most DIRECTIONS of them, and one-hot targets need none: what is kept grows with K, not with K^2.
EPSILON = 0.03  # how much a source's own head trusts the other sources
DIRECTIONS = 128  # of the class means; of more classes than that the leading ones are kept


def weightings(n: int) -> list[Array]:
    """How much each head trusts each source: all alike; then each source alone, the others at EPSILON.

    >>> [w.tolist() for w in weightings(2)]
    [[1.0, 1.0], [1.0, 0.03], [0.03, 1.0]]
    """
    if not n:
        return []
    return [np.ones(n)] + ([np.where(np.arange(n) == i, 1.0, EPSILON) for i in range(n)] if n > 1 else [])


def class_targets(weights: Array, sums: list[Array], counts: list[Array]) -> Array:
    """Unit centred source class means, written in a basis of their span: one regression serves all classes."""
    count = sum(w * c for w, c in zip(weights, counts, strict=True))
    means = sum(w * s for w, s in zip(weights, sums, strict=True)) / np.maximum(count, 1e-9)[:, None]
    u, s, _ = np.linalg.svd(unit(means - means.mean(axis=0)), full_matrices=False)
    kept = s > 1e-9 * max(s[0], 1e-300)
    return np.asarray((u * s)[:, kept][:, :DIRECTIONS])


def grown(targets: Array, widths: list[int], classes: int) -> tuple[Array, list[int]]:
    """Targets (K x sum of widths) and widths with room for so many classes: each new one a column, orthogonal to all.

    >>> grown(np.eye(1), [1], 2)
    (array([[1., 0.],
           [0., 1.]]), [2])
    """
    extra = classes - len(targets)
    if not extra:
        return targets, widths
    new = np.hstack([np.eye(extra, width + extra, width) for width in widths])
    return np.vstack([grown_columns(targets, widths, extra), new]), [width + extra for width in widths]


def grown_columns(M: Array, widths: list[int], extra: int) -> Array:
    """Weights of heads side by side (.. x sum of widths), each with zeros for the new classes.

    >>> grown_columns(np.ones((1, 2)), [1, 1], 1)
    array([[1., 0., 1., 0.]])
    """
    if not extra:
        return M
    ends = np.cumsum(widths)
    return np.hstack([np.pad(M[:, e - w : e], ((0, 0), (0, extra))) for w, e in zip(widths, ends, strict=True)])


class Targets:
    """The class targets of all heads of a space side by side; without a table each head has one number a class.

    >>> targets = Targets(None, [2, 2], 2)
    >>> targets.rows(np.array([1])).tolist(), targets.of_labels(np.array([[0, 1]])).tolist()
    ([[0.0, 1.0, 0.0, 1.0]], [[1.0, 0.0, 0.0, 1.0]])
    >>> targets.scores(np.array([[0.1, 0.9, 0.3, 0.7]])).tolist()
    [[[0.1, 0.9], [0.3, 0.7]]]
    """

    def __init__(self, table: Array | None, widths: list[int], classes: int) -> None:
        self.classes, self.heads, self.table = classes, len(widths), None
        self.widths, self.width = [classes] * self.heads, classes * self.heads  # columns of each head, and of all
        if table is None:
            return
        self.table, self.widths = grown(table, widths, classes)
        self.width = self.table.shape[1]
        ends = np.cumsum(self.widths).tolist()
        parts = [self.table[:, e - w : e] for w, e in zip(self.widths, ends, strict=True)]
        self.parts = [np.ascontiguousarray(C.T) for C in parts]
        self.half_squares = np.array([0.5 * (C * C).sum(axis=1) for C in parts])

    def rows(self, y: Array) -> Array:
        """The targets of rows by their labels (B x q); that of a row without one is any."""
        if self.table is not None:
            return np.asarray(self.table[y])
        return self.of_labels(np.broadcast_to(y[:, None], (len(y), self.heads)))

    def of_labels(self, labels: Array) -> Array:
        """The targets where every head has a label of its own for a row (rows x heads)."""
        n = len(labels)
        if self.table is None:
            out = np.zeros((n, self.heads, self.classes))
            out[np.arange(n)[:, None], np.arange(self.heads), labels] = 1.0
            return out.reshape(n, -1)
        return np.hstack([C.T[labels[:, h]] for h, C in enumerate(self.parts)])

    def scores(self, fits: Array) -> Array:
        """score_k = C_k . f - |C_k|^2/2 (B x heads x K)."""
        if self.table is None:
            return fits.reshape(len(fits), self.heads, self.classes)
        out, begin = np.empty((len(fits), self.heads, self.classes)), 0
        for h, C in enumerate(self.parts):
            out[:, h] = fits[:, begin : begin + len(C)] @ C
            begin += len(C)
        out -= self.half_squares
        return out
