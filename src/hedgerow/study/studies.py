"""The table of studies: what each one changes, at which strengths, and how its curve is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hedgerow.core.errors import InputError, unknown
from hedgerow.study import sources as kinds
from hedgerow.study.drift import KINDS, drifting
from hedgerow.study.scenarios import (
    Scenario,
    appearing_late,
    as_it_is,
    batched,
    delayed,
    gaps,
    imbalanced,
    missing_classes,
    only_in_target,
)

OURS = ("hedgerow", "hedgerow-linear")
ALONE = "no sources"
SHARES = (20, 50, 80)  # percent


@dataclass(frozen=True)
class Panel:
    """One curve: names on the axis, and the points they stand for."""

    title: str
    axis: str
    points: Mapping[str, str]


@dataclass(frozen=True)
class Study:
    """Scenarios by name in the order of the table, how `panels` draw them, and a `reference` point to compare with."""

    name: str
    title: str
    meaning: str
    points: Mapping[str, Scenario]
    panels: Sequence[Panel]
    reference: str = ""


def _strengths(name: str, title: str, meaning: str, axis: str, points: Mapping[str, Scenario]) -> Study:
    return Study(name, title, meaning, points, [Panel("", axis, {point: point for point in points})])


def _late_classes() -> Study:
    points: dict[str, Scenario] = {"0 %": as_it_is}
    panels = []
    for title in ("only in the target", "late", "only in the target, and late"):
        names = {"0 %": "0 %"}
        for percent in SHARES[:2]:
            names[f"{percent} %"] = f"{title}: {percent} %"
            points[names[f"{percent} %"]] = _held_back(title, percent / 100)
        panels.append(Panel(title, "share of the classes", names))
    return Study(
        "late-classes",
        "Classes that appear late, or only in the target",
        "A share of the classes, at least one, is in no source, or does not stream before half-time, or both. The "
        "first instance of a class that nobody named before is a mistake of every method.",
        points,
        panels,
    )


def _held_back(title: str, share: float) -> Scenario:
    late, absent = appearing_late(share), only_in_target(share)
    if title == "late":
        return late
    return absent if title == "only in the target" else lambda task: late(absent(task))


def _sources() -> Study:
    there: dict[str, Scenario] = {
        "all sources": as_it_is,
        "no unlabelled rows": kinds.no_unlabelled,
        "one source": kinds.one_source,
        ALONE: kinds.no_sources,
    }
    points, panels = dict(there), [Panel("what is there in advance", "", {name: name for name in there})]
    for title, relabel in (
        ("labels shuffled", kinds.shuffled),
        ("classes exchanged", kinds.exchanged),
        ("other classes", kinds.others),
    ):
        names = {"0 %": "all sources"}
        for percent in (50, 100):
            names[f"{percent} %"] = f"{title}: {percent} %"
            points[names[f"{percent} %"]] = kinds.spoiled(percent / 100, relabel)
        panels.append(Panel(title, "share of the sources", names))
    meaning = (
        "Few sources, no unlabelled target rows, sources whose labels are noise, are systematically wrong, or name "
        "classes that never stream. Each method is compared with itself without any source (it is told the list of "
        "classes, nothing else): what is worse than that is negative transfer."
    )
    return Study("sources", "Sources of every kind", meaning, points, panels, ALONE)


STUDIES = {
    study.name: study
    for study in (
        _strengths(
            "delay",
            "Labels that come late",
            "The label of an instance arrives D instances later; what still waits at the end of the stream comes then.",
            "labels late by D instances",
            {str(rounds): delayed(rounds) for rounds in (0, 10, 50, 200)},
        ),
        _strengths(
            "missing",
            "Labels that never come",
            "Each label is lost with the same probability. Mistakes are counted on all instances all the same.",
            "labels missing",
            {f"{percent} %": gaps(percent / 100) for percent in (0, 10, 50, 90, 99)},
        ),
        _strengths(
            "batches",
            "Labels in batches",
            "Labels wait until B of them are there, and come together.",
            "labels in batches of B",
            {str(size): batched(size) for size in (1, 10, 50, 200)},
        ),
        _late_classes(),
        _strengths(
            "missing-classes",
            "Classes missing from some sources",
            "Each source lacks a share of the classes, at least one, another draw for each; all are in some source.",
            "classes missing from each source",
            {"0 %": as_it_is} | {f"{percent} %": missing_classes(percent / 100) for percent in SHARES},
        ),
        _strengths(
            "drift",
            "A target that changes",
            "Mid-stream the target becomes another domain of its family, one that is no source: at once, little by "
            'little, or back and forth. The unlabelled rows are of the first domain. In "renamed" the domain stays '
            "and every class takes the name of the next.",
            "",
            {kind: drifting(kind) for kind in KINDS},
        ),
        _strengths(
            "imbalance",
            "Rare classes",
            "Half of the classes keep only a share of their target rows, at least one each; the sources stay as they "
            "are.",
            "rows that the rare classes keep",
            {"100 %": as_it_is} | {f"{percent} %": imbalanced(percent / 100) for percent in (30, 10, 3)},
        ),
        _sources(),
    )
}


def find_studies(name: str) -> list[Study]:
    """The study of this name; "all" is all of them, and commas join several.

    >>> [study.name for study in find_studies("delay,drift")]
    ['delay', 'drift']
    """
    wanted = [word.strip() for word in name.split(",") if word.strip()]
    if not wanted:
        raise InputError(f"no study named; choose one of {', '.join(STUDIES)}, or all (`hedgerow study --list`)")
    for word in wanted:
        if word != "all" and word not in STUDIES:
            raise unknown("study", word, [*STUDIES, "all"])
    return list(STUDIES.values()) if "all" in wanted else [STUDIES[word] for word in wanted]
