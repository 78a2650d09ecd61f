"""Our learner against what people would use instead, on streams whose labels come after the predictions.

`make bench-peers` installs all, in two environments, because CapyMOA wants another pandas than we have pinned. What is
in bench/rows/peers.jsonl is not run again. A peer has its package's own defaults ("default", the input standardised by
the sources) and one setting that somebody who knows the package would choose for rows of unit length ("reasonable",
with the input map of our learner). For VW, SGD, logistic regression and support vectors the best or nearly best of 8,
18, 3 and 7 settings on split 0 of DSLR was taken; the others were set by judgement. Ours has one setting for all.
"""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.measure import child
from bench.nine import EARLY, calibration_error
from bench.pages import Line, fixed
from bench.record import Row, rows
from bench.tasks import NINE, TITLES, order_of, prepare
from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.comparison.tables import Table
from hedgerow.core.arrays import dense
from hedgerow.core.preprocess import Preprocess
from hedgerow.core.source_rows import InMemory
from hedgerow.methods import OWN_STEPS

REFIT = 50
PASSES = 5
SEED = 1
DIM = 100
OURS = ("hedgerow", "hedgerow-linear")
STREAMS = (
    "dslr",
    "webcam",
    "amazon",
    "amazon-reviews/books",
    "watch/1",
    "watch/2",
    "watch/3",
    "caltech",
    "PIE5",
)
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "POT_BACKEND_DISABLE_TENSORFLOW": "1",  # else skada loads it unasked
    "JAVA_TOOL_OPTIONS": "-XX:ActiveProcessorCount=1 -Xmx6g",
}


@dataclass(frozen=True)
class Stream:
    """One target with its sources, the labels as codes 0..K-1, the rows of the stream in their order."""

    sources: list[np.ndarray]
    source_codes: list[np.ndarray]
    together: np.ndarray
    warmup: np.ndarray
    rows: np.ndarray
    codes: np.ndarray
    K: int

    @classmethod
    def of(cls, task: str, split: int) -> Stream:
        """One split and its first order: the same rows in the same order for everybody."""
        prepared = prepare(task, split)
        order = order_of(0, len(prepared.stream))
        labels = [np.asarray(source.y) for source in prepared.sources]
        classes = np.unique(np.concatenate(labels))
        sources = [dense(source.X).astype(float) for source in prepared.sources]
        stream = np.ascontiguousarray(dense(prepared.stream.X)[order].astype(float))
        codes = [np.searchsorted(classes, y) for y in labels]
        told = np.searchsorted(classes, np.asarray(prepared.stream.y)[order])
        return cls(
            sources,
            codes,
            prepared.together,
            dense(prepared.warmup.X).astype(float),
            stream,
            told,
            len(classes),
        )

    def mapped(self, setting: str, target_only: bool) -> Stream:
        """As a peer sees it; nothing looks ahead, a row is mapped by what came before it. "default": over mean and
        deviation of the sources (of the unlabelled rows for a peer that knows the target alone)."""
        if setting == "reasonable":
            pre = Preprocess(OWN_STEPS)
            behind, warmup = pre.fit([InMemory(X) for X in self.sources], self.warmup)
            sources = [source.gathered() for source in behind]
            return replace(
                self,
                sources=sources,
                warmup=warmup,
                rows=pre.fold(self.rows, np.ones(len(self.rows), bool)),
            )
        known = self.warmup if target_only else np.vstack(self.sources)
        mean = known.mean(axis=0)
        sd = known.std(axis=0)
        sd[sd < 1e-12] = 1
        sources = [(X - mean) / sd for X in self.sources]
        return replace(
            self, sources=sources, warmup=(self.warmup - mean) / sd, rows=(self.rows - mean) / sd
        )

    def pooled(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of all sources in one order."""
        X = np.vstack(self.sources)
        y = np.concatenate(self.source_codes)
        return X[self.together], y[self.together]


# -- learners ---------------------------------------------------------------------------------------------------------


class Peer:
    """Predicts, then learns. Rows are brought into the package's own form (`form`) outside the clock."""

    row_by_row = False  # the sources are learned one by one, by `learn`, as the stream is

    def __init__(self, make: Callable[..., Any], better: bool, stream: Stream) -> None:
        self.make = make
        self.better = better
        self.K = stream.K
        self.probabilistic = True
        self.start(stream)

    def start(self, stream: Stream) -> None:
        """What is done before the clock runs."""
        self.model = self.make(self.better)

    def fit(self, stream: Stream) -> None:
        """Learn the sources, and look at the unlabelled rows of the target, at once."""

    def form(self, x: np.ndarray) -> Any:
        """A row as the package wants it."""
        return x

    def predict(self, row: Any) -> np.ndarray | None:
        """A score for each class; None where there is none yet, which counts as a mistake."""
        p = np.zeros(self.K)
        if hasattr(self.model, "predict_proba"):
            p[self.model.classes_] = self.model.predict_proba(row[None])[0]
        else:
            self.probabilistic = False
            p[int(self.model.predict(row[None])[0])] = 1
        return p

    def learn(self, row: Any, code: int) -> None:
        """The label of the row just predicted."""


class Own(Peer):
    """Ours by its public interface, live."""

    def start(self, stream: Stream) -> None:
        X = np.random.default_rng(0).normal(size=(40, 6))  # the compiled parts are loaded
        y = np.arange(40) % 3
        self.model = self.make().fit_domains(
            [Domain("a", X, y), Domain("b", X + 1, y)], Domain("t", X)
        )
        for x, label in zip(X, y, strict=True):
            self.predict(x)
            self.learn(x, label)

    def fit(self, stream: Stream) -> None:
        pairs = zip(stream.sources, stream.source_codes, strict=True)
        sources = [Domain(f"source {i}", X, y) for i, (X, y) in enumerate(pairs)]
        self.model = self.make().fit_domains(sources, Domain("target", stream.warmup))

    def predict(self, row: np.ndarray) -> np.ndarray:
        return np.array(list(self.model.predict_proba_one(row).values()))

    def learn(self, row: np.ndarray, code: int) -> None:
        self.model.learn_one(row, code)


class PartialFit(Peer):
    """scikit-learn: one pass over the sources (reasonable: five), then every label."""

    def fit(self, stream: Stream) -> None:
        for _ in range(PASSES if self.better else 1):
            self.model.partial_fit(*stream.pooled(), classes=np.arange(self.K))

    def learn(self, row: np.ndarray, code: int) -> None:
        self.model.partial_fit(row[None], [code])


class Refitted(Peer):
    """scikit-learn: fitted on the sources, and anew on sources and stream after every 50 labels."""

    def fit(self, stream: Stream) -> None:
        X, y = stream.pooled()
        self.rows, self.codes = [X], y.tolist()
        self.model.fit(X, y)

    def learn(self, row: np.ndarray, code: int) -> None:
        self.rows.append(row[None])
        self.codes.append(code)
        if (len(self.rows) - 1) % REFIT == 0:
            self.model.fit(np.vstack(self.rows), self.codes)


class River(Peer):
    row_by_row = True

    def form(self, x: np.ndarray) -> dict[int, float]:
        return dict(enumerate(x.tolist()))

    def predict(self, row: dict[int, float]) -> np.ndarray | None:
        shares = self.model.predict_proba_one(row)
        p = np.zeros(self.K)
        if not shares or not sum(shares.values()) > 0:
            return None
        p[list(shares)] = list(shares.values())
        return p

    def learn(self, row: dict[int, float], code: int) -> None:
        self.model.learn_one(row, code)


class Vowpal(Peer):
    """One against all. Reasonable: logistic loss, with probabilities, and larger steps."""

    row_by_row = True

    def start(self, stream: Stream) -> None:
        from vowpalwabbit import Workspace

        more = "--loss_function logistic --probabilities -l 2" if self.better else ""
        self.model, self.probabilistic = Workspace(f"--oaa {self.K} {more} --quiet"), self.better

    def form(self, x: np.ndarray) -> str:
        return "| " + " ".join(f"{i}:{value:.9g}" for i, value in enumerate(x.tolist()) if value)

    def predict(self, row: str) -> np.ndarray:
        told = self.model.predict(row)
        return np.asarray(told) if self.better else np.eye(self.K)[told - 1]

    def learn(self, row: str, code: int) -> None:
        self.model.learn(f"{code + 1} {row}")


class Skada(Peer):
    """Adapted once to the unlabelled rows, then a logistic regression that stays."""

    def fit(self, stream: Stream) -> None:
        (X, y), n = stream.pooled(), len(stream.warmup)
        owner = np.repeat(np.arange(len(stream.sources)), [len(part) for part in stream.sources])[
            stream.together
        ]
        self.domain = np.array([-(len(stream.sources) + 1)])
        dim = min(DIM, stream.warmup.shape[1], n - 1) if self.better else None
        self.model = self.make(_regression(self.better), dim)
        labels = np.concatenate([y, np.full(n, -1)])
        domains = np.concatenate([owner + 1, np.repeat(self.domain, n)])
        self.model.fit(np.vstack([X, stream.warmup]), labels, sample_domain=domains)

    def start(self, stream: Stream) -> None:
        pass

    def predict(self, row: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict_proba(row[None], sample_domain=self.domain)[0])


class Adapt(Skada):
    def fit(self, stream: Stream) -> None:
        dim = min(DIM, stream.warmup.shape[1], len(stream.warmup) - 1) if self.better else None
        self.model = self.make(
            _regression(self.better), dim, Xt=stream.warmup, verbose=0, random_state=0
        )
        self.model.fit(*stream.pooled())

    def predict(self, row: np.ndarray) -> np.ndarray:
        X = row[None]  # ADAPT has `predict` only; this is what it does, with probabilities
        X = self.model.transform(X, domain="tgt") if hasattr(self.model, "transform") else X
        return np.asarray(self.model.estimator_.predict_proba(X)[0])


class Moa(Peer):
    """CapyMOA. Default: 100 trees, 60 % of the features. Reasonable: 30 trees, fewer features."""

    row_by_row = True

    def start(self, stream: Stream) -> None:
        from capymoa.core import Instance, LabeledInstance
        from capymoa.stream import Schema

        names = [f"f{i}" for i in range(stream.rows.shape[1])]
        kinds = {"class": [str(k) for k in range(self.K)]}
        self.schema = Schema.from_custom([*names, "class"], target="class", categories=kinds)
        self.model = self.make(self.better, self.schema)
        self.plain = Instance
        self.labelled = LabeledInstance

    def form(self, x: np.ndarray) -> tuple[Any, np.ndarray]:
        return self.plain.from_array(self.schema, x), x

    def predict(self, row: tuple[Any, np.ndarray]) -> np.ndarray | None:
        shares = self.model.predict_proba(row[0])
        p = np.zeros(self.K)
        if shares is None or not np.sum(shares) > 0:
            return None
        p[: len(shares)] = np.asarray(shares) / np.sum(shares)
        return p

    def learn(self, row: tuple[Any, np.ndarray], code: int) -> None:
        self.model.train(self.labelled.from_array(self.schema, row[1], int(code)))


def _named(path: str) -> Any:
    """A class by its full name, imported when it is used."""
    module, _, name = path.rpartition(".")
    return getattr(__import__(module, fromlist=[name]), name)


def _regression(better: bool) -> Any:
    return _named("sklearn.linear_model.LogisticRegression")(
        **({"C": 10.0, "max_iter": 300} if better else {})
    )


def _sgd(better: bool, **options: Any) -> Any:
    return _named("sklearn.linear_model.SGDClassifier")(random_state=0, **options)


def _of(path: str, better: dict[str, Any], **always: Any) -> Callable[..., Any]:
    return lambda setting, *given: _named(path)(*given, **always, **(better if setting else {}))


def _softmax(better: bool) -> Any:
    step = (_named("river.optim.SGD")(1.0),) if better else ()
    return _named("river.linear_model.SoftmaxRegression")(*step)


def _patches(better: bool) -> Any:
    tree = _named("river.tree.HoeffdingTreeClassifier")
    given = ((tree(grace_period=25, delta=0.01),), {"subspace_size": 0.2}) if better else ((), {})
    return _named("river.ensemble.SRPClassifier")(*given[0], **given[1], seed=SEED)


def _bagging(better: bool) -> Any:
    base = _softmax(True) if better else _named("river.tree.HoeffdingTreeClassifier")()
    return _named("river.ensemble.LeveragingBaggingClassifier")(base, seed=SEED)


def _transport(base: Any, dim: int | None) -> Any:
    return _named(f"skada.{'ClassRegularizerOTMapping' if dim else 'OTMapping'}")(base)


def _adapted(path: str, better: Callable[[int], dict[str, Any]]) -> Callable[..., Any]:
    return lambda base, dim, **given: _named(path)(base, **given, **(better(dim) if dim else {}))


PA = {"loss": "hinge", "penalty": None, "learning_rate": "pa1"}
TREES = {"n_models": 25, "grace_period": 25}
SPLITS = {"grace_period": 50, "delta": 0.01}
GAUSSIAN = {"kernel": "rbf", "gamma": 1.0}
FOREST = {"ensemble_size": 30, "max_features": "sqrt"}
BOOSTING = {"max_iter": 40, "learning_rate": 0.2, "max_features": 0.2}
PEERS: dict[str, tuple[str, type[Peer], Callable[..., Any]]] = {  # name: package, kind, how the model is made
    "hedgerow": ("hedgerow", Own, lambda: OnlineTransferClassifier()),
    "hedgerow-linear": ("hedgerow", Own, lambda: OnlineTransferClassifier("hedgerow-linear")),
    "sklearn SGD": ("sklearn", PartialFit, lambda better: _sgd(better, loss="log_loss")),
    "sklearn PA": ("sklearn", PartialFit, lambda better: _sgd(better, **PA, eta0=0.1 if better else 1.0)),
    "sklearn logistic, refitted": ("sklearn", Refitted, _regression),
    "sklearn SVM, refitted": ("sklearn", Refitted, _of("sklearn.svm.SVC", {"C": 10.0, "gamma": 0.5})),
    "sklearn boosting, refitted": (
        "sklearn", Refitted, _of("sklearn.ensemble.HistGradientBoostingClassifier", BOOSTING, random_state=0),
    ),
    "VW --oaa": ("vowpalwabbit", Vowpal, lambda: None),
    "skada CORAL": ("skada", Skada, lambda base, dim: _named("skada.CORAL")(base, **({"reg": 0.1} if dim else {}))),
    "skada subspace": ("skada", Skada, lambda base, dim: _named("skada.SubspaceAlignment")(base, n_components=dim)),
    "skada transport": ("skada", Skada, _transport),
    "ADAPT CORAL": ("adapt", Adapt, _adapted("adapt.feature_based.CORAL", lambda dim: {"lambda_": 1.0})),
    "ADAPT subspace": ("adapt", Adapt, _adapted("adapt.feature_based.SA", lambda dim: {"n_components": dim})),
    "ADAPT weights": ("adapt", Adapt, _adapted("adapt.instance_based.KMM", lambda dim: GAUSSIAN)),
    "river softmax": ("river", River, _softmax),
    "river ARF": ("river", River, _of("river.forest.ARFClassifier", TREES, seed=SEED)),
    "river HAT": ("river", River, _of("river.tree.HoeffdingAdaptiveTreeClassifier", SPLITS, seed=SEED)),
    "river SRP": ("river", River, _patches),
    "river LevBag": ("river", River, _bagging),
    "CapyMOA ARF": ("capymoa", Moa, _of("capymoa.classifier.AdaptiveRandomForestClassifier", FOREST)),
    "CapyMOA SRP": ("capymoa", Moa, _of("capymoa.classifier.StreamingRandomPatches", FOREST | {"max_features": 0.2})),
}  # fmt: skip


# -- one run, in a process of its own ---------------------------------------------------------------------------------


class TimeUp(Exception):
    """The limit of CPU seconds is reached."""


@dataclass
class Progress:
    """How far a run is."""

    source_rows: int = 0
    offline: float = 0.0
    online: float = 0.0
    wrong: list[bool] = field(default_factory=list)
    shares: list[np.ndarray] = field(default_factory=list)
    finished: bool = False


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise TimeUp after so many CPU seconds."""

    def up(*_: Any) -> None:
        raise TimeUp

    signal.signal(signal.SIGPROF, up)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def walk(peer: Peer, stream: Stream, training: str, limit: float) -> Progress:
    """Sources, at most half of the limit where they are learned row by row; then the stream, each row predicted before
    its label is seen."""
    done = Progress()
    began = time.process_time()
    clock = time.process_time
    forms = [peer.form(x) for x in stream.rows]
    with suppress(TimeUp):
        with alarm(limit):
            if training == "sources" and peer.row_by_row:
                for x, code in zip(*stream.pooled(), strict=True):
                    if clock() - began > limit / 2:
                        break
                    peer.learn(peer.form(x), int(code))
                    done.source_rows += 1
            elif training == "sources":
                peer.fit(stream)
                done.source_rows = sum(map(len, stream.sources))
        done.offline = clock() - began
        with alarm(limit - done.offline):
            for row, code in zip(forms, stream.codes.tolist(), strict=True):
                shares = peer.predict(row)
                peer.learn(row, code)
                done.online = clock() - began - done.offline
                done.shares.append(np.full(stream.K, 1 / stream.K) if shares is None else shares)
                done.wrong.append(shares is None or int(np.argmax(shares)) != code)
        done.finished = True
    return done


def cell(
    task: str, name: str, setting: str, training: str, split: int, limit: float
) -> dict[str, Any]:
    """The figures of one run; a peer that breaks is a row too."""
    warnings.simplefilter("ignore")
    stream = Stream.of(task, split)
    total = sum(map(len, stream.sources)) if training == "sources" else 0
    _, kind, make = PEERS[name]
    try:
        stream = stream if kind is Own else stream.mapped(setting, training == "target")
        peer = kind(make, setting == "reasonable", stream)
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
        before = _memory("VmRSS")
        done = walk(peer, stream, training, limit)
    except Exception as error:
        return {"finished": False, "n": 0, "error": f"{type(error).__name__}: {str(error)[:200]}"}
    n = len(done.wrong)
    wrong = np.array(done.wrong, dtype=bool)
    error = calibration_error(np.array(done.shares), ~wrong) if n and peer.probabilistic else None
    return {
        "finished": done.finished, "n": n, "rows": len(stream.codes), "all sources": done.source_rows >= total,
        "mistakes %": 100 * wrong.mean() if n else None, "calibration": error,
        "first 50": int(wrong[:EARLY].sum()) if n >= EARLY else None,
        "ms a row": 1e3 * done.online / n if n else None, "offline s": done.offline,
        "MiB": max(_memory("VmHWM") - before, 0) / 1024, "wrong": np.packbits(wrong).tobytes().hex(),
    }  # fmt: skip


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def peers(
    quick: bool, tasks: str = ",".join(STREAMS), methods: str = ";".join(PEERS), split: int = 20, limit: float = 60.0,
    again: str = "",
) -> Iterator[Row]:  # fmt: skip
    """Labelled sources come first, then a stream whose label comes after each prediction, the same rows in the same
    order for all. scikit-learn learns the sources at once, river, CapyMOA and VW row by row; "refitted" every 50
    labels; skada and ADAPT adapt once. Time is CPU, one thread, without the input map (with it for ours). A run has a
    limit of CPU seconds, half of it for sources: † learned only a part of them; "unfinished": every setting failed or
    met the limit. A line has the best of a method's settings on each stream, chosen with hindsight (default or
    reasonable, with the sources or the target alone), and medians of these runs; ours has one setting."""
    if quick:
        tasks = "digits/shifted"
        methods = "hedgerow-linear;sklearn SGD;river softmax;skada CORAL"
        again = "yes"
    there = [] if again else [line["setting"] for line in rows("peers")]
    for name in methods.split(";"):
        package, kind, _ = PEERS[name]
        if find_spec(package) is None:
            print(f"left out, because {package} is not installed here: {name}")
            continue
        for task in tasks.split(","):
            for training in (
                ("sources", "target") if kind.row_by_row and not quick else ("sources",)
            ):
                for setting in ("default",) if kind is Own or quick else ("default", "reasonable"):
                    which = {
                        "task": task,
                        "method": name,
                        "setting": setting,
                        "training": training,
                        "split": split,
                    }
                    if which not in there:
                        yield Row(
                            which,
                            child(
                                cell,
                                *which.values(),
                                limit,
                                env=ENVIRONMENT,
                                timeout=4 * limit + 60,
                            ),
                        )


# -- the page ---------------------------------------------------------------------------------------------------------


def peers_page(lines: list[Line]) -> Iterator[str]:
    """A line a method, with the best of its settings on every stream; where we lose."""
    from scipy.stats import binomtest

    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in lines:
        at = (line["setting"]["method"], line["setting"]["task"])
        runs.setdefault(at, []).append(line["figures"])
    methods = dict.fromkeys(method for method, _ in runs)
    streams = [
        task for task in dict.fromkeys((*NINE, *STREAMS)) if sum(at[1] == task for at in runs) > 2
    ]
    shown = []
    lost = []
    beyond = []
    total = 0
    for method in methods:
        done = {
            task: [x for x in runs.get((method, task), ()) if x.get("finished")] for task in streams
        }
        best = {
            task: min(some, key=lambda x: x["mistakes %"]) for task, some in done.items() if some
        }
        cells = (_cell(best.get(task), (method, task) in runs) for task in streams)
        means = []
        for figure, digits in (("calibration", 3), ("ms a row", 2)):
            values = [x[figure] for x in best.values() if x[figure] is not None]
            means.append(fixed(median(values), digits) if values else "")
        shown.append([f"**{method}**" if method in OURS else method, *cells, *means])
        for task in streams if method not in OURS else ():
            (own,) = runs[OURS[0], task]
            total += len(done[task])
            for figures in done[task]:
                if figures["mistakes %"] < own["mistakes %"]:
                    theirs = _bits(figures)
                    ours = _bits(own)
                    only = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
                    lost.append(f"{method} on {TITLES.get(task, task)}")
                    beyond += lost[-1:] if binomtest(only[0], sum(only)).pvalue < 0.05 else []
    header = ["mistakes %", *(TITLES.get(task, task) for task in streams)]
    figures = ["calibration", "ms a row"]
    yield from ["", *Table("", "", [*header, *figures], shown).markdown().splitlines()]
    yield from [
        "",
        f"Finished runs of peers: {total}; with fewer mistakes than `hedgerow`: {len(lost)}",
    ]
    yield f"({', '.join(lost) or 'none'}); of these beyond chance (sign test on the same rows, 5 %):"
    yield f"{', '.join(beyond) or 'none'}."


def _bits(figures: dict[str, Any]) -> np.ndarray:
    bits = np.frombuffer(bytes.fromhex(figures["wrong"]), dtype=np.uint8)
    return np.unpackbits(bits, count=figures["n"]).astype(bool)


def _cell(figures: dict[str, Any] | None, tried: bool) -> str:
    """Mistakes in percent."""
    if figures is None:
        return "unfinished" if tried else "·"
    return f"{figures['mistakes %']:.2f}" + ("" if figures["all sources"] else "†")
