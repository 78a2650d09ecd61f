"""What is run for which part of the report: a unit (group, task, method, variant, split) times its orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hedgerow.core.errors import unknown
from hedgerow.experiment.classifiers import options_read, reading_answers
from hedgerow.learners.readings import READINGS
from hedgerow.paper.options import PARTS
from hedgerow.paper.tasks import Task, settings

SIDE_ORDERS = 5  # orders of the runs beside the main table: they compare settings, not methods
C_VALUES = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
TW_VALUES = (1, 5, 10, 20, 30, 50, 100, 200)
CENTRED = ("centre", "unit")  # appended to a reading's own steps: per-domain centring for everybody


@dataclass(frozen=True)
class Unit:
    """One fitted classifier: its place in the report, its options, and how many orders it is run for."""

    group: str
    task: Task
    method: str
    variant: str
    split: int
    reading: str
    orders: int
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        variant = f" ({self.variant})" if self.variant else ""
        return f"{self.method}{variant} on {self.task.title}"

    def key(self, trial: int) -> tuple[str, str, str, str, int, int]:
        """What makes a row of the results unique."""
        return self.group, self.task.name, self.method, self.variant, self.split, trial


def parts_of(names: str) -> list[str]:
    """Parts of the report by name, joined by commas; "all" stands for every one.

    >>> parts_of("table,curves")
    ['table', 'curves']
    """
    if names.strip() == "all":
        return list(PARTS)
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in PARTS:
            raise unknown("part of the report", name, [*PARTS, "all"])
    return wanted


def units(
    parts: Sequence[str], tasks: Sequence[Task], methods: Sequence[str], reading: str, trials: int, splits: int
) -> list[Unit]:
    """Every unit whose rows these parts of the report need, each once.

    >>> from hedgerow.paper.tasks import TASKS
    >>> len(units(["table", "curves"], [TASKS["dslr"]], ["pa", "oddm"], "table", 20, 1))
    2
    """
    groups = dict.fromkeys(group for part in parts for group in PARTS[part])
    out: list[Unit] = []
    for group in groups:
        for task in tasks:
            for split in range(splits if group == "table" else 1):
                for method, variant, options in _variants(group, task, methods, reading):
                    orders = trials if group in ("table", "mixers") else min(trials, options.pop("orders", SIDE_ORDERS))
                    at = options.pop("split", split)
                    full = settings(task, reading, method) | options
                    out.append(Unit(group, task, method, variant, at, reading, orders, full))
    return out


def _variants(
    group: str, task: Task, methods: Sequence[str], reading: str
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """method, name of the variant, and what it sets."""
    if group == "table":
        yield from ((method, "", {}) for method in methods)
    elif group == "sensitivity-C":
        with_C = [method for method in methods if "C" in options_read(method, {})]
        yield from ((method, f"C={C:g}", {"C": C}) for method in with_C for C in C_VALUES)
    elif group == "sensitivity-Tw":
        # one refresh a label is the slow end: fewer orders there
        for method in (method for method in methods if "refresh_every" in options_read(method, {})):
            for Tw in TW_VALUES:
                yield method, f"Tw={Tw}", {"refresh_every": Tw, "orders": 1 if Tw < 5 else SIDE_ORDERS}
    elif group == "ablation":
        for method in methods:
            yield from _ablation(task, method, reading)
    elif group == "refresh":
        yield from _refresh(task, methods, reading)
    elif group == "inputs":
        for method in methods:
            yield method, "centred", {"preprocess": _steps(task, method, reading) + CENTRED}
            if task.family == "office-caltech":
                yield method, "zscore+unit", {"preprocess": ("zscore", "unit")}
    elif group == "definitions":
        yield from _definitions(methods)
    elif group == "mixers" and "oddm" in methods:
        yield "oddm", "vote", {"combine": "vote"}
        yield "oddm", "simplex", {"mixer": "loss", "combine": "simplex"}
        yield "oddm", "log-loss", {"mixer": "log-loss"}


def _base(task: Task, method: str, reading: str) -> dict[str, Any]:
    return reading_answers(method, reading, settings(task, reading, method))


def _steps(task: Task, method: str, reading: str) -> tuple[str, ...]:
    return tuple(_base(task, method, reading)["preprocess"])


def _ablation(task: Task, method: str, reading: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """One option after the other changed from what the table uses, all others left alone."""
    base = _base(task, method, reading)
    other_lam = 0.1 if base["lam"] == 1.0 else 1.0
    other_every = 50 if base["refresh_every"] == 10 else 10
    switches: list[dict[str, Any]] = [
        {"tau": "printed" if base["tau"] == "original" else "original"},
        {"source_pass": "average" if base["source_pass"] == "last" else "last"},
        *({"preprocess": steps} for steps in INPUTS if steps != tuple(base["preprocess"])),
        {"split": 1},
        {"combine": "vote"},
        {"projected": "plain" if base["projected"] == "unit" else "unit"},
        {"beta_rule": "ln 2n" if base["beta_rule"] == "ln 2" else "ln 2"},
        {"lam": other_lam},
        {"eigenvectors": "S" if base["eigenvectors"] == "unit" else "unit"},
        *({"unseen": rule} for rule in ("zero", "skip", "shrink") if rule != base["unseen"]),
        {"refresh_every": other_every},
        {"inverse": "pinv" if base["inverse"] == "woodbury" else "woodbury", "orders": 1},
    ]
    read = options_read(method, {"horizon": 1.0}) | {"split"}
    if "refresh_every" in read:  # of a space that does not move, neither says anything about mistakes
        switches.append({"target_mean": "stream" if base["target_mean"] == "warmup" else "warmup"})
        switches.append({"guarantee": "theorem" if base["guarantee"] == "proved" else "proved", "orders": 1})
    switches = [switch for switch in switches if next(iter(switch)) in read]
    for switch in switches:
        name, value = next(iter(switch.items()))
        shown = "+".join(value) if isinstance(value, tuple) else "drawn" if name == "split" else f"{value}"
        yield method, f"{name}={shown}", switch


INPUTS = (("row-minmax", "unit"), ("row-minmax",), ("zscore",), ("zscore", "unit"))


def _refresh(task: Task, methods: Sequence[str], reading: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for label, extra in (("", ()), ("centred ", CENTRED)):
        if "oddm-fixed" in methods:
            steps = _steps(task, "oddm-fixed", reading) + extra
            yield "oddm-fixed", f"{label}fixed", {"preprocess": steps}
        if "oddm" in methods:
            steps = _steps(task, "oddm", reading) + extra
            for rule in ("zero", "skip", "shrink"):
                yield "oddm", f"{label}{rule}", {"preprocess": steps, "unseen": rule}


def _definitions(methods: Sequence[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for source_pass in ("last", "average"):
        if "homotl-1" in methods:
            for loss in ("projection", "softmax", "margin"):
                for combine in ("simplex", "scores", "vote"):
                    if (loss, combine) != ("margin", "simplex"):  # a margin has no simplex points of its own
                        name = f"{loss}, {combine}, {source_pass}"
                        yield "homotl-1", name, {"loss": loss, "combine": combine, "source_pass": source_pass}
            yield (
                "homotl-1",
                f"margin, scores, {source_pass}, eta 2",
                {"loss": "margin", "combine": "scores", "eta": 2.0, "source_pass": source_pass},
            )
        if "homotl-2" in methods:
            for combine in ("scores", "vote"):
                yield "homotl-2", f"{combine}, {source_pass}", {"combine": combine, "source_pass": source_pass}


def check_reading(name: str) -> str:
    """The name, if there is such a reading; else an error that suggests the nearest one."""
    if name not in READINGS:
        raise unknown("reading", name, READINGS)
    return name
