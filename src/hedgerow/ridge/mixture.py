"""How the heads become one prediction: a Bayes mixture, stacks on top of it, and a last mixture that keeps the bound.

First mixture: experts are (head, temperature c, prior power j) with q = softmax(c F + j log pi), and pi itself, the
running class frequencies. Weights are products of q(y): sum_t -ln qbar(y_t) <= min_e L_e + ln(1/w_e).
Two stacks: softmax(sum_i a_i F_i) over the heads' scores, centred log qbar and centred log pi, fitted by one online
Newton step a label; one starts at qbar, the other at the average of the heads.
Last mixture: Bayes over qbar (weight 1/2, so that its bound costs ln 2 more and no more), pi and the stacks. Its argmax
is the prediction: M <= (min_e L_e + ln(1/w_e) + ln 2)/ln 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import Array

TEMPERATURES = np.array([2.0, 4.0, 8.0, 16.0, 32.0])
PRIOR_WEIGHT = 0.05  # of an expert that multiplies in the class frequencies, against 1 of one that does not
RIDGE = 3.0  # how slowly a stack leaves its start; three of them (1, 3, 10) were no better than one
LEAST = 1e-12


def log_softmax(F: Array) -> Array:
    """log of the softmax over the last axis."""
    top = F - F.max(axis=-1, keepdims=True)
    return np.asarray(top - np.log(np.exp(top).sum(axis=-1, keepdims=True)))


def centred(F: Array) -> Array:
    """Minus its mean over the classes."""
    return np.asarray(F - F.mean(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Mixed:
    """A block: probabilities B x K of the last mixture, the first's weight of each head (B x heads + 1), log-loss."""

    probabilities: Array
    weights: Array
    loss: float


def initial(heads: int, K: int) -> dict[str, Array]:
    """The state of the mixture before any label."""
    experts = heads * len(TEMPERATURES)
    log_w = np.concatenate([np.zeros(experts), np.full(experts, np.log(PRIOR_WEIGHT)), [0.0]])
    from_mixture = np.concatenate([np.zeros(heads), [1.0, 0.0]])
    from_average = np.concatenate([np.full(heads, 4.0 / max(heads, 1)), [0.5, 0.0]])
    starts = np.array([from_mixture, from_average])
    last = np.array([0.5, 0.25, 0.125, 0.125])  # qbar, pi, the stacks
    return {
        "mix.log_w": log_w - np.log(np.exp(log_w).sum()),
        "mix.loss": np.zeros(len(log_w)),
        "mix.log_v": np.log(last),
        "mix.last_loss": np.zeros(len(last)),
        "mix.a": starts,
        "mix.H": np.array([RIDGE * np.eye(heads + 2) for _ in starts]),
        "mix.counts": np.ones(K),
    }


def run(state: dict[str, Array], F: Array, y: Array, known: int | None = None) -> Mixed:
    """Rows in order, each predicted by what came before it; the labelled ones (y >= 0) are learned. F is B x heads x K.

    A label y >= known is a class that could not be named: it is predicted without, and counts as a mistake of all.
    """
    heads = F.shape[1]
    labelled = y >= 0
    log_pi = log_frequencies(state, y)[:, :known]
    F = F[:, :, :known]
    nameable = np.where(labelled & (y < F.shape[2]), y, 0)
    unnamed = (labelled & (y >= F.shape[2]))[:, None]

    log_p = _experts(F, log_pi)
    losses = -_of_label(log_p, nameable)
    losses[unnamed[:, 0]] = -np.log(LEAST)
    losses *= labelled[:, None]
    w = _posterior(state["mix.log_w"], state["mix.loss"], losses)
    log_q = np.log(np.einsum("be,bek->bk", w, np.exp(log_p)) + LEAST)

    features = np.concatenate([F, centred(log_q)[:, None], centred(log_pi)[:, None]], axis=1)
    stacked = _stacks(state, features, np.where(unnamed[:, 0], -1, y))
    log_f = np.concatenate([log_softmax(log_q)[:, None], log_pi[:, None], log_softmax(stacked)], axis=1)
    last = -_of_label(log_f, nameable)
    last[unnamed[:, 0]] = -np.log(LEAST)
    last *= labelled[:, None]
    v = _posterior(state["mix.log_v"], state["mix.last_loss"], last)
    state["mix.loss"] += losses.sum(axis=0)
    state["mix.last_loss"] += last.sum(axis=0)
    np.add.at(state["mix.counts"], y[labelled], 1.0)
    probabilities = np.einsum("be,bek->bk", v, np.exp(log_f))
    own = np.where(unnamed[:, 0], LEAST, np.take_along_axis(probabilities, nameable[:, None], axis=1)[:, 0])
    return Mixed(probabilities, _by_head(w, heads), float(-np.log(np.maximum(own, LEAST))[labelled].sum()))


def predict(state: dict[str, Array], F: Array) -> Array:
    """Probabilities of rows that are only predicted, all by the state as it is."""
    frozen = {name: array.copy() for name, array in state.items() if name.startswith("mix.")}
    return run(frozen, F, np.full(len(F), -1)).probabilities


def head_weights(state: dict[str, Array], heads: int) -> Array:
    """The first mixture's weight of each head now, its temperatures and priors together; the last is pi's."""
    none = np.zeros((1, len(state["mix.loss"])))
    return np.asarray(_by_head(_posterior(state["mix.log_w"], state["mix.loss"], none), heads)[0])


def bound(state: dict[str, Array]) -> float:
    """(min_e L_e + ln(1/w_e) + ln 2)/ln 2, on the mistakes of the prediction."""
    return float(((state["mix.loss"] - state["mix.log_w"]).min() + np.log(2)) / np.log(2))


def _experts(F: Array, log_pi: Array) -> Array:
    """log q of every expert: heads x temperatures, the same with the class frequencies, the frequencies (B x E x K)."""
    G = (F[:, :, None, :] * TEMPERATURES[:, None]).reshape(len(F), -1, F.shape[2])
    return np.concatenate([log_softmax(G), log_softmax(G + log_pi[:, None]), log_pi[:, None]], axis=1)


def log_frequencies(state: dict[str, Array], y: Array) -> Array:
    """log pi before each row: (1 + labels of each class so far)/sum."""
    K = len(state["mix.counts"])
    seen = np.zeros((len(y), K))
    rows = np.flatnonzero(y >= 0)
    seen[rows, y[rows]] = 1.0
    before = state["mix.counts"] + np.cumsum(seen, axis=0) - seen
    return np.asarray(np.log(before / before.sum(axis=1, keepdims=True)))


def _of_label(log_p: Array, y: Array) -> Array:
    return np.take_along_axis(log_p, y[:, None, None], axis=2)[:, :, 0]


def _posterior(log_prior: Array, loss: Array, losses: Array) -> Array:
    """Normalised weights before each row: prior times exp(-loss so far)."""
    before = np.cumsum(np.vstack([loss, losses]), axis=0)[:-1]
    log_w = log_prior - before
    w = np.exp(log_w - log_w.max(axis=1, keepdims=True))
    return np.asarray(w / w.sum(axis=1, keepdims=True))


def _by_head(w: Array, heads: int) -> Array:
    parts = w[:, :-1].reshape(len(w), 2, heads, -1).sum(axis=(1, 3))
    return np.concatenate([parts, w[:, -1:]], axis=1)


def _stacks(state: dict[str, Array], features: Array, y: Array) -> Array:
    """Scores of each stack before each label (B x stacks x K); one Newton step for each labelled row."""
    a, H = state["mix.a"], state["mix.H"]
    out = np.empty((len(features), len(a), features.shape[2]))
    for t, F in enumerate(features):
        out[t] = a @ F
        if y[t] < 0:
            continue
        p = np.exp(log_softmax(out[t]))
        m = p @ F.T
        H += np.einsum("sk,ik,jk->sij", p, F, F, optimize=True) - m[:, :, None] * m[:, None, :]
        a -= np.linalg.solve(H, (m - F[:, y[t]])[:, :, None])[:, :, 0]
    return out
