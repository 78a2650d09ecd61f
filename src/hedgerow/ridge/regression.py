"""Recursive least squares with a prior, one row or one block at a time, with the same numbers.

Several heads share one P (d x d); their weights stand side by side in M (d x q). A row z with targets y:

    k = P z / (r + z' P z),   M += k (y - z' M),   P -= k z' P           r = 1/weight of the row

Block form (exact): S = diag(r) + Z P Z' = L L',  E = L^-1 (Y - Z M),  G = L^-1 Z P;  the fits before each label are
Z M + (L - diag L) E, all at once, and afterwards M += G' E, P -= G' G. A row without a label is one of infinite r.
(Y - diag(L) E is the same number, but its rounding depends on the label: a tie would go to the right class.)

The rows of G and E are pending until `flush` adds them up in one product. Until then P stands for P - G' G and M for
M + G' E, and a row is multiplied with them as z' P - (z' G') G and z' M + (z' G') E. So one instance reads P once and
never writes it, and a long block reads and writes it once. P and M start as priors that many models share; the first
flush makes copies of them.

P is symmetric, and only its upper triangle is kept up to date: an update is half the work, and a live step reads half.

P is known to some 16 digits. Where z' P z is 1e10 times r (a row far longer than usual, or of a very large weight), the
update would leave little but rounding in P, and z' P z < 0 later. So r is at least 1e-10 times what z' P z could be by
P's diagonal: such a row counts for less than it asks. A block that has one goes row by row, as the bound depends on the
rows before. Rows of unit length with a weight of 1 are never among them.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.preprocess import unit

NEVER = 1e30  # r of a row that is predicted and not learned
LOST = 1e-13  # of what z' P z could be: lost to rounding when the rows that wait are taken from P
FAR = 1e100  # a row is shortened where the root of z' P z could be larger
RIDGE = 1e-12  # of the largest diagonal of a Gram matrix: a smaller ridge would be lost in its rounding


class Regression:
    """P, M and at most `room` pending rows between calls; a `shared` P and M are a prior's until the first flush."""

    def __init__(self, P: Array, M: Array, room: int, *, shared: bool = False) -> None:
        self.P, self.M, self.shared = P, M, shared
        d, q = M.shape
        self._room = np.empty((room, d)), np.empty((room, q))
        self.G, self.E = self._room
        self.pending = 0
        self.measure()

    def take(self, G: Array, E: Array) -> None:
        """Pending rows as they were stored."""
        n = len(G)
        self.make_room(n)
        self.G[:n], self.E[:n], self.pending = G, E, n

    def measure(self) -> None:
        """After P has changed: the largest number on its diagonal, or infinity if rounding has left one negative."""
        diagonal = self.P.diagonal()
        self.top = float(diagonal.max(initial=0.0)) if diagonal.min(initial=np.inf) > 0 else np.inf

    def fit(self, Z: Array) -> Array:
        """Z M, by all labels so far."""
        n = self.pending
        if len(Z) == 1:
            from hedgerow.kernels.rows import low_rank_product

            out = np.empty((1, self.M.shape[1]))
            low_rank_product(Z[0], self.M, self.G, self.E, n, out[0])
            return out
        fits = np.asarray(Z @ self.M)
        if n:
            fits += (Z @ self.G[:n].T) @ self.E[:n]
        return fits

    def run(self, Z: Array, Y: Array, noise: Array, before: Array | None = None) -> Array:
        """Fits of each row before its label (B x q). `noise` is r, a number a row; `before` is `fit(Z)` of one row.

        >>> r = Regression(np.eye(2), np.zeros((2, 1)), 2)
        >>> r.run(np.array([[1.0, 0.0], [1.0, 0.0]]), np.ones((2, 1)), np.ones(2)).ravel().round(6).tolist()
        [0.0, 0.5]
        """
        if len(Z) == 1:
            return self._run_row(Z, Y, noise[0], self.fit(Z) if before is None else before)
        if self.doubtful(Z, noise).any():
            return self._run_rows(Z, Y, noise)
        n, fits = self.pending, Z @ self.M
        PZ = symmetric_product(Z, self.P)
        if n:
            along = self.G[:n] @ Z.T
            fits += along.T @ self.E[:n]
            along *= -1
            add_product(PZ, along, self.G[:n])
        S = PZ @ Z.T
        S.flat[:: len(S) + 1] += noise
        try:
            L = np.linalg.cholesky(S)
        except np.linalg.LinAlgError:  # P has lost its sign by rounding
            return self._run_rows(Z, Y, noise)
        learned, missed = noise < NEVER, Y - fits
        missed[~learned] = 0.0  # the target of a row without a label is any; it must not show, however faintly
        E, G = solve_lower(L, missed), solve_lower(L, PZ)
        end = n + int(learned.sum())
        np.compress(learned, G, axis=0, out=self.G[n:end])
        np.compress(learned, E, axis=0, out=self.E[n:end])
        self.pending = end
        L.flat[:: len(L) + 1] = 0.0
        return np.asarray(fits + L @ E)

    def doubtful(self, Z: Array, noise: Array) -> Array:
        """The rows whose r may have to be raised."""
        from hedgerow.kernels.ridge import ROUNDING

        with np.errstate(over="ignore"):  # infinity is large enough
            spread = (Z * Z) @ self.P.diagonal()
        return np.asarray((ROUNDING * spread > noise) | (self.top == np.inf))

    def _run_rows(self, Z: Array, Y: Array, noise: Array) -> Array:
        rows = [slice(t, t + 1) for t in range(len(Z))]
        return np.concatenate([self._run_row(Z[t], Y[t], noise[t][0], self.fit(Z[t])) for t in rows])

    def _run_row(self, Z: Array, Y: Array, noise: float, fits: Array) -> Array:
        if noise < NEVER:
            from hedgerow.kernels.ridge import learn_row

            n, missed = self.pending, Y[0] - fits[0]
            if not learn_row(self.P, Z[0], missed, noise, self.G, self.E, n, self.top):
                self.G[n], self.E[n] = self._careful(Z[0], missed, noise)
            self.pending += 1
        return fits

    def _careful(self, z: Array, missed: Array, noise: float) -> tuple[Array, Array]:
        """g and e of one row, by the rule above, and so that P keeps its sign whatever rounding does.

        No g_j^2 may be larger than P_jj, which holds by itself, but for rounding: then the diagonal, and with it all of
        P, never grows. A row for which P has nothing left is not learned.
        """
        from hedgerow.kernels.ridge import ROUNDING

        G, diagonal = self.G[: self.pending], self.P.diagonal()
        size = np.sqrt(max(diagonal.max(), 0.0)) * np.abs(z).max()
        if size > FAR:  # the row, its target and its noise alike, so that squares are numbers
            z, missed, noise = z * (FAR / size), missed * (FAR / size), noise * (FAR / size) ** 2
        left = diagonal - (G * G).sum(axis=0)
        g = symmetric_product(z[None], self.P)[0] - (G @ z) @ G
        stored = float(z * z @ diagonal)
        square = noise + float(g @ z)
        if ROUNDING * stored > noise or diagonal.min() <= 0:
            least = max(noise, ROUNDING * float(z * z @ left), LOST * stored)
            told = g != 0
            if not (left[told] > 0).all():
                return np.zeros_like(g), np.zeros_like(missed)
            bound = (1 + ROUNDING) * (g[told] / left[told] * g[told]).max(initial=0.0)
            square = max(least + max(float(g @ z), 0.0), bound)
        if square < noise or square <= 0:
            return np.zeros_like(g), np.zeros_like(missed)
        return g / np.sqrt(square), missed / np.sqrt(square)

    def move(self, U: Array, change: Array) -> Array:
        """M += P U' change: as if the targets of rows learned before had changed by this, times their weight; U P."""
        self.flush()
        self.own()
        PU = symmetric_product(U, self.P)
        add_product(self.M, PU, change)
        return PU

    def unlearn(self, U: Array, Y: Array, noise: float) -> bool:
        """Take out rows that were learned with these targets and this noise; False, and nothing done, if it cannot be.

        With T = r I - U P U' = L L', E = L^-1 (Y - U M), G = L^-1 U P it is P += G' G, M -= G' E.
        """
        self.flush()
        PU = symmetric_product(U, self.P)
        T = -(PU @ U.T)
        T.flat[:: len(T) + 1] += noise
        try:
            L = np.linalg.cholesky(T)
        except np.linalg.LinAlgError:  # nothing else was ever known along one of them
            return False
        self.own()
        E, G = solve_lower(L, Y - U @ self.M), solve_lower(L, PU)
        add_product(self.M, G, -E)
        add_gram(self.P, G, 1.0)
        self.measure()
        return True

    def leverage(self, U: Array) -> Array:
        """u' P u of each row."""
        self.flush()
        return np.asarray(np.einsum("ij,ij->i", symmetric_product(U, self.P), U))

    def make_room(self, rows: int) -> None:
        """Make sure that `rows` more rows fit; if not, flush."""
        if self.pending + rows > len(self.G):
            self.flush()
        if rows > len(self.G):
            self.G, self.E = np.empty((rows, self.G.shape[1])), np.empty((rows, self.E.shape[1]))

    def give_back_room(self) -> None:
        """Back to the room of the start; rows pending in a larger one are flushed."""
        if self.G is not self._room[0]:
            self.flush()
            self.G, self.E = self._room

    def flush(self) -> None:
        """Pending rows go into M and P: one product each."""
        n = self.pending
        if n:
            self.own()
            add_product(self.M, self.G[:n], self.E[:n])
            add_gram(self.P, self.G[:n], -1.0)
            self.pending = 0
            self.measure()

    def own(self) -> None:
        """Copy P and M, if they are still the shared prior's."""
        if self.shared:
            self.P, self.M, self.shared = self.P.copy(), self.M.copy(), False


def symmetric_product(Z: Array, P: Array) -> Array:
    """Z P for a symmetric P (C-contiguous) of which only the upper triangle is read.

    >>> symmetric_product(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 2.0], [9.0, 3.0]])).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    from scipy.linalg.blas import dsymm

    return np.asarray(dsymm(1.0, P.T, np.ascontiguousarray(Z).T, lower=1).T)


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


def with_rows(P: Array, M: Array, U: Array, targets: Array, weight: float) -> tuple[Array, Array]:
    """P and M after the rows of U were learned too, with these targets and this weight each (copies)."""
    PU = P @ U.T
    A = np.linalg.solve(U @ PU + np.eye(len(U)) / weight, PU.T).T
    return P - A @ PU.T, M + A @ (targets - U @ M)


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
    parts, begin = [], 0
    for width in widths:
        part = np.zeros((classes, width + extra))
        part[: len(targets), :width] = targets[:, begin : begin + width]
        part[len(targets) :, width:] = np.eye(extra)
        parts.append(part)
        begin += width
    return np.hstack(parts), [width + extra for width in widths]


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
        self._parts = [np.ascontiguousarray(C.T) for C in parts]
        self._half_squares = np.array([0.5 * (C * C).sum(axis=1) for C in parts])

    def rows(self, y: Array) -> Array:
        """The targets of rows by their labels (B x q); that of a row without one is any."""
        if self.table is not None:
            return np.asarray(self.table[y])
        if len(y) == 1:  # the usual step of a stream
            out = np.zeros((1, self.width))
            out[0, y[0] % self.classes :: self.classes] = 1.0
            return out
        return self.of_labels(np.broadcast_to(y[:, None], (len(y), self.heads)))

    def of_labels(self, labels: Array) -> Array:
        """The targets where every head has a label of its own for a row (rows x heads)."""
        n = len(labels)
        if self.table is None:
            out = np.zeros((n, self.heads, self.classes))
            out[np.arange(n)[:, None], np.arange(self.heads), labels] = 1.0
            return out.reshape(n, -1)
        return np.hstack([C.T[labels[:, h]] for h, C in enumerate(self._parts)])

    def scores(self, fits: Array) -> Array:
        """score_k = C_k . f - |C_k|^2/2 (B x heads x K)."""
        if self.table is None:
            return fits.reshape(len(fits), self.heads, self.classes)
        out, begin = np.empty((len(fits), self.heads, self.classes)), 0
        for h, C in enumerate(self._parts):
            out[:, h] = fits[:, begin : begin + len(C)] @ C
            begin += len(C)
        out -= self._half_squares
        return out
