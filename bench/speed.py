"""Speed, side by side: with the naive forms, with peers, and with another commit."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench import naive
from bench.measure import OFFICE, PIE, SMALL, Size, domains, one_by_one, seconds_of, side_by_side
from bench.record import Row
from bench.sides import HERE, Side, Stream, Timed, checkout, in_turns
from bench.tasks import TITLES, classifier, of_paper, order_of
from hedgerow import OnlineTransferClassifier, PaperOptions
from hedgerow.ridge.plain import PlainLearner

THREE = "digits/shifted,office-caltech/amazon,pie/PIE5"  # 64, 800 and 1024 features
FIVE = f"made/20,made/20 trees,{THREE}"
# over commit df844b0, before the lean learner, by the columns of a row: a live row, and a row of a block
LEAN = {"made/20": (0.2, 0.6), "made/20 trees": (0.25, 1.0), "digits/shifted": (0.2, 0.6)}
LEAN |= {"office-caltech/amazon": (0.7, 0.8), "pie/PIE5": (0.7, 0.8)}


def start(size: Size) -> tuple[Any, Any, Any]:
    """ODDM after its offline stage, as the authors run it; the rows and labels of the stream."""
    sources, warmup, stream = domains(size, rows=max(400, 8 * size.K), warmup=200)
    clf = classifier(
        "oddm", "authors", preprocess=(), dim=size.d, rounds=1, refresh_every=size.every, horizon=size.stream,
        classes=np.arange(size.K),
    )  # fmt: skip
    return clf.fit_domains(sources, warmup), np.ascontiguousarray(stream.X), np.asarray(stream.y)


def replay(quick: bool, repeats: int = 5) -> Iterator[Row]:
    """ODDM over a whole stream in one call against the authors' operations (`naive.oddm`), microseconds an instance;
    predictions of the first 200 instances that differ."""
    for size in (SMALL,) if quick else (PIE, OFFICE):
        clf, X, y = start(size)
        few = size.every * (2 if size is PIE else 5)
        models = [copy.deepcopy(clf) for _ in range(repeats + 1)]
        times = side_by_side(
            {
                "naive": lambda clf=clf, X=X, y=y, few=few: naive.replay(
                    clf.learner_, X[:few], y[:few]
                ),
                "ours": lambda models=models, X=X, y=y: models.pop().predict_then_learn(X, y),
            },
            repeats,
        )
        ours = 1e6 * times["ours"] / len(X)
        theirs = 1e6 * times["naive"] / few
        different = (
            naive.replay(clf.learner_, X[:200], y[:200]) != clf.predict_then_learn(X[:200], y[:200])
        ).sum()
        figures = {"x naive": theirs / ours, "us": ours, "naive us": theirs, "different": different}
        yield Row(
            {"size": size.name},
            figures,
            {"x naive": f">= {400 if size is OFFICE else 200}", "different": "== 0"},
        )


def live(quick: bool, rounds: int = 7) -> Iterator[Row]:
    """ODDM's `predict_one` and `learn_one` between refreshes against one projection of the row into all spaces (one
    product with the BLAS); the longest step by its place in the window, and predictions unlike those of the replay."""
    for size in (SMALL,) if quick else (PIE, OFFICE):
        clf, X, y = start(size)
        H = np.random.default_rng(0).normal(size=(size.m, size.n * size.d))
        z = np.empty(size.n * size.d)
        steps = []
        products = []
        clock = time.perf_counter
        for _ in range(rounds):
            model = copy.deepcopy(clf)
            times = []
            predictions = []
            for x, label in zip(list(X), y.tolist(), strict=True):
                began = clock()
                predictions.append(model.predict_one(x))
                model.learn_one(x, label)
                times.append(clock() - began)
            products += [seconds_of(lambda x=x, H=H, z=z: np.dot(x, H, out=z)) for x in X]
            steps.append(times[2 * size.every : len(times) // size.every * size.every])
        by_place = np.median(np.reshape(steps, (-1, size.every)), axis=0)
        step = 1e6 * float(np.median(by_place))
        product = 1e6 * median(products)
        figures = {
            "x one projection": step / product,
            "us": step,
            "longest us": 1e6 * by_place.max(),
        }
        figures["different"] = (
            np.array(predictions) != copy.deepcopy(clf).predict_then_learn(X, y)
        ).sum()
        yield Row({"size": size.name}, figures, {"x one projection": "<= 3", "different": "== 0"})


def against(
    quick: bool,
    other: str = "HEAD",
    methods: str = "hedgerow,oddm",
    tasks: str = FIVE,
    rounds: int = 5,
    threads: int = 1,
) -> Iterator[Row]:
    """This checkout over another commit (or src folder), each in a process of its own, in turns: time of a row in one
    call (replay) and live, bytes of the model, and predictions that the sides do not share. Below one: this checkout is
    faster. `core`: live, processor time; `longest`: the longest step of the calmest round. "made/20": a made-up stream
    of 20 columns, the default method without trees, or with them. `threads=0`: BLAS has its default threads."""
    if quick:
        other = str(HERE)
        methods = "hedgerow-linear"
        tasks = "digits/shifted"
        rounds = 2
    for task in tasks.split(","):
        name, _, trees = task.partition(" ")
        stream = Stream.of(name, 60 if quick else None)
        with ExitStack() as stack:
            sources = (HERE, stack.enter_context(checkout(other)))
            sides = [
                stack.enter_context(Side(source, stream, threads or None)) for source in sources
            ]
            for method in methods.split(","):
                made = name.startswith("made/")
                if made and method != "hedgerow":
                    continue
                options = {"trees": bool(trees)} if made else {}
                yield _beside(
                    sides, stream, rounds, method, options, task, "itself" if quick else other
                )


def _beside(
    sides: list[Side], stream: Stream, rounds: int, method: str, options: dict[str, Any], task: str, other: str
) -> Row:  # fmt: skip
    replays: tuple[list[Timed], ...] = ([], [])
    lives: tuple[list[Timed], ...] = ([], [])
    for side in sides:
        side.fit(method, **options)
    for i, side in in_turns(sides, rounds):
        replays[i].append(side.replay())
        lives[i].append(side.live())
    blocks = [min(run.us for run in runs) for runs in replays]
    steps = [min(float(np.median(run.us.sum(axis=1))) for run in runs) for runs in lives]
    core = [min(run.core for run in runs) for runs in lives]
    longest = [min(float(run.us.sum(axis=1).max()) for run in runs) for runs in lives]
    file, before = (side.file() for side in sides)
    replayed, live = ([runs[0].predictions for runs in each] for each in (replays, lives))
    limits = (
        LEAN.get(task, (1.05, 1.05)) if method == "hedgerow" and other != "itself" else (1.05, 1.05)
    )
    return Row(
        {"task": task, "features": stream.X.shape[1], "method": method, "other": other},
        {
            "replay": blocks[0] / blocks[1], "live": steps[0] / steps[1], "core": core[0] / core[1],
            "longest": longest[0] / longest[1], "replay us": blocks[0], "live us": steps[0], "file": file / before,
            "MB": file / 1e6, "other predictions": (replayed[0] != replayed[1]).sum(),
            "live unlike replay": (replayed[0] != live[0]).sum(), "mistakes": (replayed[0] != stream.y).sum(),
        },
        {"replay": f"<= {limits[1]}", "live": f"<= {limits[0]}"},
    )  # fmt: skip


def stops(quick: bool, labels: int = 5000, runs: int = 3) -> Iterator[Row]:
    """The longest `predict_one` or `learn_one` of the default method over 5,000 labels, beside the median step. Other
    processes stop a run too, each time elsewhere, so a call counts with the shortest of its three times. The stream
    comes again in other orders, moved by noise."""
    for task in ("digits/shifted" if quick else THREE,):
        for name in task.split(","):
            stream = Stream.of(name).lengthened(80 if quick else labels)
            with Side(HERE, stream) as side:
                side.fit()
                times = np.stack([side.live().us for _ in range(runs)])
            own = times.min(axis=0)
            step = float(np.median(times.min(axis=0).sum(axis=1)))
            figures = {"x median": own.max() / step, "longest us": own.max(), "median us": step}
            figures |= {
                "longest of all runs us": times.max(),
                "at label": int(own.max(axis=1).argmax()) + 1,
            }
            yield Row({"task": name, "features": stream.X.shape[1]}, figures, {"x median": "<= 3"})


def plain(quick: bool, rounds: int = 5, steps: int = 100) -> Iterator[Row]:
    """The default method in one call against its one-instance form in plain NumPy (`ridge/plain.py`), microseconds an
    instance; predictions that differ."""
    for task in ("dslr",) if quick else ("amazon", "PIE5"):
        prepared, _ = of_paper(task, "general")
        clf = OnlineTransferClassifier().fit_domains(prepared.sources, prepared.unlabelled)
        order = order_of(0, len(prepared.stream))
        X = prepared.stream.X[order]
        y = np.searchsorted(clf.classes_, np.asarray(prepared.stream.y)[order])
        models = [copy.deepcopy(clf) for _ in range(rounds + 1)]
        predictions = []

        def plainly(
            learner: Any = clf.learner_,
            X: Any = X[:steps],
            y: Any = y[:steps],
            into: Any = predictions,
        ) -> None:
            twin = PlainLearner(learner)
            into.append([twin.step(x, label) for x, label in zip(X, y, strict=True)])

        labels = clf.classes_[y]
        works = {
            "ours": lambda m=models, X=X, y=labels: m.pop().predict_then_learn(X, y),
            "plain": plainly,
        }
        times = side_by_side(works, rounds)
        ours = 1e6 * times["ours"] / len(y)
        theirs = 1e6 * times["plain"] / min(steps, len(y))
        blocks = clf.predict_then_learn(X[:steps], labels[:steps])
        different = (blocks != clf.classes_[predictions[0]]).sum()
        figures = {"x plain": theirs / ours, "us": ours, "plain us": theirs, "different": different}
        yield Row({"task": TITLES[task]}, figures, {"x plain": ">= 15", "different": "== 0"})


def pa(quick: bool, repeats: int = 5) -> Iterator[Row]:
    """Multiclass PA one by one, predict then learn, 10,000 rows of 100 features and 10 classes, against river and
    scikit-learn, which learn one class against the rest; microseconds a row."""
    from river import linear_model, multiclass
    from sklearn.linear_model import SGDClassifier

    N, few, K = (300, 100, 10) if quick else (10_000, 500, 10)
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, N)
    X = rng.normal(size=(K, 100))[y] + 3 * rng.normal(
        size=(N, 100)
    )  # something to learn in every row
    clf = OnlineTransferClassifier(
        "pa", preprocess=(), classes=np.arange(K), options=PaperOptions(C=1.0)
    ).partial_fit(X[:K], np.arange(K))
    named = [dict(enumerate(x.tolist())) for x in X[:few]]

    def river() -> None:
        one_by_one(
            multiclass.OneVsRestClassifier(linear_model.PAClassifier(C=1.0, mode=1)),
            named,
            y[:few].tolist(),
        )

    def scikit_learn() -> None:
        peer = SGDClassifier(loss="hinge", penalty=None, learning_rate="pa1", eta0=1.0)
        peer.partial_fit(X[:1], y[:1], classes=np.arange(K))
        for i in range(few // 5):
            peer.predict(X[i : i + 1])
            peer.partial_fit(X[i : i + 1], y[i : i + 1])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        works = {
            "ours": lambda: one_by_one(copy.deepcopy(clf), list(X), y.tolist()),
            "river": river,
        }
        times = side_by_side(works | {"scikit-learn": scikit_learn}, repeats)
    ours = 1e6 * times["ours"] / N
    for name, rows, least in (("river", few, 25), ("scikit-learn", few // 5, 300)):
        figures = {
            "x": 1e6 * times[name] / rows / ours,
            "us": ours,
            "their us": 1e6 * times[name] / rows,
        }
        yield Row({"against": name}, figures, {"x": f">= {least}"})


def jda(quick: bool, task: str = "amazon") -> Iterator[Row]:
    """JDA with ten rounds for all sources of a task against the textbook solver (`scipy.linalg.eig` on the m x m
    pencil), and at m = 4096 against one symmetric eigendecomposition of the smaller Gram matrix; seconds."""
    from scipy.linalg import subspace_angles

    from hedgerow.align import JDA
    from hedgerow.core.preprocess import row_minmax

    dim, rounds = (8, 2) if quick else (100, 10)
    prepared, given = of_paper("dslr" if quick else task, "table")
    target = row_minmax(prepared.warmup.X)
    seconds = {"ours": 0.0, "textbook": 0.0}
    angle = 0.0
    different = 0
    for source in prepared.sources[: 1 if quick else None]:
        X = row_minmax(source.X)
        codes = np.unique(source.y, return_inverse=True)[1]
        lam = given["lam"]
        made = {}
        if quick:
            X = X[:60, :100]
            codes = codes[:60]
            target = target[:, :100]
        works = {
            "ours": lambda: made.update(  # noqa: B023
                ours=JDA(dim=dim, lam=lam, rounds=rounds).fit(X, codes, target)  # noqa: B023
            ),
            "textbook": lambda: made.update(textbook=naive.jda(X, codes, target, dim, lam, rounds)),  # noqa: B023
        }
        for name, work in works.items():
            seconds[name] += seconds_of(work)
        ours = made["ours"]
        textbook = made["textbook"]
        angle = max(angle, float(np.sin(subspace_angles(ours.projection.A, textbook.A)).max()))
        different += int((ours.info.pseudo_labels != textbook.pseudo_labels[-1]).sum())
    figures = {
        "x": seconds["textbook"] / seconds["ours"],
        "s": seconds["ours"],
        "their s": seconds["textbook"],
    }
    figures |= {"angle": angle, "other labels": different}
    yield Row(
        {"against": "textbook"}, figures, {"x": ">= 20", "angle": "<= 1e-6", "other labels": "== 0"}
    )
    m, n, K = (128, 90, 10) if quick else (4096, 2500, 10)
    rng = np.random.default_rng(0)
    codes = np.arange(n) % K
    X = (0.15 * rng.normal(size=(K, m))[codes] + rng.normal(size=(n, m))) / np.sqrt(
        np.arange(1, m + 1)
    )
    S = X[: 3 * n // 5]
    T = X[3 * n // 5 :] + 0.3 * X.std()
    gram = naive.unit_rows(X) @ naive.unit_rows(X).T
    works = {
        "ours": lambda: JDA(dim=dim, lam=0.1, rounds=rounds).fit(S, codes[: len(S)], T),
        "one eigendecomposition": lambda: np.linalg.eigh(gram),
    }
    times = list(side_by_side(works, 3).values())
    yield Row(
        {"against": f"one eigendecomposition, m = {m}"},
        {"x": times[1] / times[0], "s": times[0]},
        {"x": ">= 0.5"},
    )


FIRST_USE = """
import sys, time
import numpy as np
import scipy.linalg, scipy.sparse, sklearn.utils.validation, numba
from hedgerow import OnlineTransferClassifier, PaperOptions
rng = np.random.default_rng(0)
X, y = rng.normal(size=(300, 20)), np.arange(300) % 3
def once():
    began = time.perf_counter()
    clf = OnlineTransferClassifier(sys.argv[1]).fit(X, y, sample_domain=np.repeat([0, 1, -1], 100))
    clf.predict_one(X[0])
    clf.learn_one(X[0], y[0])
    clf.predict_then_learn(X, y)
    return time.perf_counter() - began
print(once() - once())
"""


def startup(quick: bool, repeats: int = 15, other: str = "") -> Iterator[Row]:
    """What a fresh process pays: the import, the command's help, and the first fit and stream beyond what the second
    takes, with an empty cache of compiled loops and with a filled one, perhaps over another commit's;
    seconds, medians over processes in turns."""

    def python(*words: str, **environment: str) -> str:
        command = [sys.executable, *words]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, env=os.environ | environment
        ).stdout

    works = {
        "python": lambda: python("-c", "pass"),
        "numpy": lambda: python("-c", "import numpy"),
        "import hedgerow": lambda: python("-c", "import hedgerow"),
        "hedgerow --help": lambda: python("-m", "hedgerow", "--help"),
    }
    times = side_by_side(works, 1 if quick else repeats)
    alone = times.pop("python")
    for what, goal in (("import hedgerow", 1.6), ("hedgerow --help", 5.0)):
        ratio = (times[what] - alone) / (times["numpy"] - alone)
        yield Row(
            {"what": what},
            {"s": times[what], "x import numpy": ratio},
            {"x import numpy": f"<= {goal}"},
        )
    with checkout(other) if other else nullcontext() as theirs:
        for method in ("pa",) if quick else ("oddm", "hedgerow"):
            sides: list[tuple[list[float], list[float]]] = [([], []), ([], [])]
            for _ in range(1 if quick else 3):
                for (cold, warm), source in zip(sides, (HERE, theirs), strict=True):
                    if source is None:
                        continue
                    with (
                        tempfile.TemporaryDirectory() as cache
                    ):  # a copy of the package without what was compiled
                        ignored = shutil.ignore_patterns("__pycache__")
                        shutil.copytree(
                            source / "hedgerow", Path(cache) / "hedgerow", ignore=ignored
                        )
                        places = dict.fromkeys(
                            ("PYTHONPATH", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"), cache
                        )
                        cold.append(float(python("-c", FIRST_USE, method, **places)))
                        warm += [float(python("-c", FIRST_USE, method, **places)) for _ in range(2)]
            (cold, warm), (others, _) = sides
            figures = {"s": median(warm), "empty cache s": median(cold)}
            if others:
                figures["empty cache, over"] = median(cold) / median(others)
            setting = {"what": f"first use of {method}"} | ({"other": other} if other else {})
            yield Row(setting, figures, {"s": "<= 1"})
