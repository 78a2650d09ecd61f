"""The published data sets: their files, where those live, and how to know that they are the right ones.

A `DataSet` has one or more layouts, in order of preference; a layout is a folder with one file a domain. The first
layout is the public one: its files have addresses and checks. The others are forms that people already have on disk.
"""

from __future__ import annotations

from dataclasses import dataclass

_AUTHORS = "https://raw.githubusercontent.com/yaoyueduzhen/HomOTL-ODDM"
_SKADA = "https://raw.githubusercontent.com/scikit-adaptation/skada-bench"


@dataclass(frozen=True)
class File:
    """One domain's file: its name, its public address and its check, `sha256:...` or `git-blob:...`."""

    name: str
    url: str = ""
    check: str = ""


@dataclass(frozen=True)
class Layout:
    """A folder of files, one a domain, in the order of the data set's domains."""

    folder: str
    files: tuple[File, ...]


@dataclass(frozen=True)
class DataSet:
    """A data set that can be loaded by name; rows, features and classes are those of the published files."""

    name: str
    domains: tuple[str, ...]
    rows: int
    features: int
    classes: int
    layouts: tuple[Layout, ...]
    home: str


def _office(name: str, sha256: str) -> File:
    commit = "41248caff4ba7efeb70dafb6eb77231bf39f37da"
    return File(name, f"{_AUTHORS}/{commit}/data/{name}", f"sha256:{sha256}")


def _pie(name: str, blob: str) -> File:
    # Known by their ids in the authors' git tree; whatever the default branch serves must have exactly these.
    return File(name, f"{_AUTHORS}/HEAD/data/{name}", f"git-blob:{blob}")


def _reviews(name: str, commit: str, sha256: str) -> File:
    return File(name, f"{_SKADA}/{commit}/data/amazon_review/{name}", f"sha256:{sha256}")


_OFFICE_CALTECH = DataSet(
    name="office-caltech",
    domains=("amazon", "caltech", "dslr", "webcam"),
    rows=2533,
    features=800,
    classes=10,
    layouts=(
        Layout(  # preferred: only these hold ID_old, the authors' fixed order
            "homotl_oddm",
            (
                _office("amazon.mat", "ae39de56ea847194bdf2013c0ee69fe47a2f99af896dbf60f5b7611b348e0d7a"),
                _office("Caltech10.mat", "b11f21540cd93e65c3f059d95c52f82911524989463f5f2a47f07a7a833dc783"),
                _office("dslr.mat", "83fa6bb4f86a042204725a9c7dcb9526bcef1d7d2bfa33bfa107a630f0256029"),
                _office("webcam.mat", "3bcf4ccb8815a69e22281656efdf19d0a91de60a4a8f734d0d215ead18b6977c"),
            ),
        ),
        Layout(
            "office_caltech10_surf",
            tuple(File(f"{domain}_SURF_L10.mat") for domain in ("amazon", "Caltech10", "dslr", "webcam")),
        ),
    ),
    home="https://github.com/yaoyueduzhen/HomOTL-ODDM (folder data)",
)

_PIE = DataSet(
    name="pie",
    domains=("PIE1", "PIE2", "PIE3", "PIE4", "PIE5"),  # poses C05, C07, C09, C27, C29
    rows=11554,
    features=1024,
    classes=68,
    layouts=(
        Layout(
            "homotl_oddm",
            (
                _pie("PIE1.mat", "fabf7fa7559de228e481a8a813eddcccf6d5d861"),
                _pie("PIE2.mat", "184ff75b4cfe3cb5968d9dc2e428c47d852486e2"),
                _pie("PIE3.mat", "f68722818b42904c00b7dec790385e8afd3bcb4d"),
                _pie("PIE4.mat", "61dd0ba8294434117789e5de5834d82213035824"),
                _pie("PIE5.mat", "9a83a47158be9a0905472dd0d11cbb60843181af"),
            ),
        ),
        Layout("pie", tuple(File(f"PIE{pose}.mat") for pose in ("05", "07", "09", "27", "29"))),
    ),
    home="https://github.com/yaoyueduzhen/HomOTL-ODDM (folder data)",
)

# Each file with a revision of that repository that is known to hold it.
_REVISION_A, _REVISION_B = "af0537050789583bd4e2697f9a431811b5a46873", "e04399f55724b1accbed8ae1050e3c6c73fd481a"

_AMAZON_REVIEWS = DataSet(
    name="amazon-reviews",
    domains=("books", "dvd", "elec", "kitchen"),
    rows=7996,
    features=400,
    classes=2,
    layouts=(
        Layout(
            "amazon_reviews",
            (
                _reviews(
                    "books_400.mat", _REVISION_A, "7a53b54f0c0e81e7ee4774d762a927399cede9a802a2409732ba00cc1c23a17a"
                ),
                _reviews(
                    "dvd_400.mat", _REVISION_B, "13a71d399f9c7ae57064952979c830455057ffd0a8da73f2c9075338d64d98ce"
                ),
                _reviews(
                    "elec_400.mat", _REVISION_B, "f1dd6e01c1eed956d3abe6493a6bb5efc95e6585b8b9b2d856c0c07e12893a35"
                ),
                _reviews(
                    "kitchen_400.mat", _REVISION_A, "b1f4e5ddfbd7b37ad2638fccbf83bd8558abf63b3e8d69a9d5bca77b1a49fed5"
                ),
            ),
        ),
    ),
    home="https://figshare.com/ndownloader/files/46003500 (a zip of the four files)",
)

DATA_SETS = {data_set.name: data_set for data_set in (_OFFICE_CALTECH, _PIE, _AMAZON_REVIEWS)}
