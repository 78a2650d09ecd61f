"""Make the folder of a live model as test data: `python tests/files/make_journal.py FOLDER`.

`journal-4` was made by it with hedgerow as it was when journals had format 4.
"""

import sys
from pathlib import Path

import pyarrow as pa

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.live import LiveModel

BIRDS = ("wren", "robin", "finch")
ROWS = [
    {"bird": BIRDS[i % 3], "length": 10.0 + i % 7, "wing": None if i % 5 == 0 else 5.0 + i % 4}
    for i in range(60)
]
LABELS = ["garden" if row["bird"] == "robin" else "wood" for row in ROWS]


def domain(name: str, begin: int, end: int) -> Domain:
    """Some rows as a source."""
    return Domain(name, pa.Table.from_pylist(ROWS[begin:end]), LABELS[begin:end])


def main(folder: Path) -> None:
    """20 events: 12 in a block, 4 labelled late, the last of these with a class that is new, 4 pending."""
    clf = OnlineTransferClassifier("pa").fit_domains(
        [domain("north", 0, 15), domain("south", 15, 30)]
    )
    with LiveModel.create(folder, clf) as live:
        live.predict_then_learn(ROWS[30:42], LABELS[30:42], [f"block-{i}" for i in range(12)])
        live.predict(ROWS[42:50], [f"late-{i}" for i in range(8)])
        live.label_many([(f"late-{i}", LABELS[42 + i]) for i in range(3)])
        live.label("late-3", "hedge")
    (folder / "lock").unlink()
    for snapshot in sorted(folder.glob("snapshots/*"))[1:]:
        snapshot.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
