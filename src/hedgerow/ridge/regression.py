"""Ridge regressions with a prior, and what they learn: class targets.

Several heads share one P (d x d); their weights stand side by side in M (d x q). A row z with targets y:

    k = P z / (r + z' P z),   M += k (y - z' M),   P -= k z' P           r = 1/weight of the row

With g = P z/root and e = (y - z' M)/root, root^2 = r + z' P z, that is M += g e', P -= g g'. The rows g and e are
pending until `fold` adds them up. Until then P stands for P - G' G and M for M + G' E
(`kernels/ridge.py`). So one instance reads P once and never writes it. P and M start as priors that many models share;
the first fold makes copies of them.

P is symmetric, and only its upper triangle is kept up to date: an update is half the work, and a live step reads half.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.preprocess import unit

RIDGE = (
    1e-12  # of the largest diagonal of a Gram matrix: a smaller ridge would be lost in its rounding
)


class Regression:
    """P, M and pending rows G, E; a `shared` P and M are a prior's until the first fold.

    `top`: the largest number on P's diagonal, infinity if rounding has left one negative; `reach`: its root.
    """

    def __init__(self, P: Array, M: Array, *, shared: bool = False) -> None:
        self.P = P
        self.M = M
        self.shared = shared
        self.G = np.empty((0, len(P)))
        self.E = np.empty((0, M.shape[1]))
        self.diagonal = np.empty(len(P))
        self.top = np.empty(1)
        self.reach = np.empty(1)
        self.measure()

    def measure(self) -> None:
        """After P has changed: its diagonal, top and reach."""
        self.diagonal[:] = self.P.diagonal()
        largest = self.diagonal.max(initial=0.0)
        self.top[0] = largest if self.diagonal.min(initial=np.inf) > 0 else np.inf
        self.reach[0] = np.sqrt(max(largest, 0.0))

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
        from scipy.linalg import solve_triangular

        PU = symmetric_product(U, self.P)
        S = sign * (PU @ U.T)
        S.flat[:: len(S) + 1] += noise
        try:
            L = np.linalg.cholesky(S)
        except np.linalg.LinAlgError:
            return False
        self.own()
        G = solve_triangular(L, PU, lower=True)
        self.M += G.T @ (sign * solve_triangular(L, Y - U @ self.M, lower=True))
        add_gram(self.P, G, -sign)
        self.measure()
        return True

    def move(self, U: Array, change: Array) -> Array:
        """M += P U' change: as if the targets of rows learned before had changed by this, times their weight; U P."""
        self.own()
        PU = symmetric_product(U, self.P)
        self.M += PU.T @ change
        return PU

    def leverage(self, U: Array) -> Array:
        """u' P u of each row."""
        return np.asarray(np.einsum("ij,ij->i", symmetric_product(U, self.P), U))

    def fold(self, n: int) -> None:
        """The first n pending rows go into M and P."""
        self.own()
        if n and len(self.P):
            add_gram(self.P, self.G[:n], -1.0)
            self.M += self.G[:n].T @ self.E[:n]
        self.measure()

    def fade(self, keep: float, P: Array, M: Array) -> None:
        """Move M and P some way back to where they started: old labels fade."""
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


def symmetric_product(Z: Array, P: Array) -> Array:
    """Z P for a symmetric P (C-contiguous) of which only the upper triangle is read.

    >>> symmetric_product(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 2.0], [9.0, 3.0]])).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    from scipy.linalg.blas import dsymm

    # BLAS takes no matrix without columns, which is what rows of zeros leave
    return np.asarray(dsymm(1.0, P.T, np.ascontiguousarray(Z).T, lower=1).T) if len(P) else Z


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


def source_prior(
    G: list[Array], sums: list[Array], weights: Array, codes: Array, lam: float, trust: float
) -> Array:
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
    return [np.ones(n)] + (
        [np.where(np.arange(n) == i, 1.0, EPSILON) for i in range(n)] if n > 1 else []
    )


def class_targets(weights: Array, sums: list[Array], counts: list[Array]) -> Array:
    """Unit centred source class means, written in a basis of their span: one regression serves all classes."""
    count = sum(w * c for w, c in zip(weights, counts, strict=True))
    means = (
        sum(w * s for w, s in zip(weights, sums, strict=True)) / np.maximum(count, 1e-9)[:, None]
    )
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
    return np.vstack([grown_columns(targets, widths, extra), new]), [
        width + extra for width in widths
    ]


def grown_columns(M: Array, widths: list[int], extra: int) -> Array:
    """Weights of heads side by side (.. x sum of widths), each with zeros for the new classes.

    >>> grown_columns(np.ones((1, 2)), [1, 1], 1)
    array([[1., 0., 1., 0.]])
    """
    if not extra:
        return M
    ends = np.cumsum(widths)
    return np.hstack(
        [np.pad(M[:, e - w : e], ((0, 0), (0, extra))) for w, e in zip(widths, ends, strict=True)]
    )


class Targets:
    """The class targets of all heads of a space side by side; without a table each head has one number a class.

    >>> targets = Targets(None, [2, 2], 2)
    >>> targets.rows(np.array([1])).tolist(), targets.of_labels(np.array([[0, 1]])).tolist()
    ([[0.0, 1.0, 0.0, 1.0]], [[1.0, 0.0, 0.0, 1.0]])
    >>> targets.scores(np.array([[0.1, 0.9, 0.3, 0.7]])).tolist()
    [[[0.1, 0.9], [0.3, 0.7]]]
    """

    def __init__(self, table: Array | None, widths: list[int], classes: int) -> None:
        self.classes = classes
        self.heads = len(widths)
        self.table = None
        self.widths = [classes] * self.heads  # columns of each head, and of all
        self.width = classes * self.heads
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
        out = np.empty((len(fits), self.heads, self.classes))
        begin = 0
        for h, C in enumerate(self.parts):
            out[:, h] = fits[:, begin : begin + len(C)] @ C
            begin += len(C)
        out -= self.half_squares
        return out
