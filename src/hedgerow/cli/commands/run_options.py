"""The options of `hedgerow run`, each with the words of its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[Path, typer.Option("--model", "-m", help="A model made by `hedgerow fit` or `save`.")]
Input = Annotated[
    str,
    typer.Option(
        "--input",
        "-i",
        help="Rows: a file, folder or pattern (csv, tsv, jsonl, parquet, arrow; .gz, .zst), - for standard input, "
        "redis://HOST/STREAM or kafka://HOST/TOPIC.",
    ),
]
Output = Annotated[
    str,
    typer.Option(
        "--output", "-o", help="Predictions as JSON lines: a file, - for standard output, redis://HOST/STREAM."
    ),
]
Label = Annotated[
    str | None, typer.Option(help="The label column, to learn from; of rows with an empty cell what can be.")
]
Id = Annotated[str | None, typer.Option(help="The column that names a row; it is echoed, and labels may come by it.")]
Labels = Annotated[
    Path | None, typer.Option(help="Labels by id, in a file of their own (.csv, .tsv, .jsonl) that may grow.")
]
Journal = Annotated[
    Path | None,
    typer.Option(help="Folder in which everything is kept: after a crash the same command goes on where it was."),
]
Save = Annotated[
    Path | None,
    typer.Option(help="Where the model goes at the end, also after Ctrl-C."),
]
Append = Annotated[bool, typer.Option("--append", help="Add to an output file that has content already.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an output file that has content already.")]
OnError = Annotated[str, typer.Option(help="What to do with a bad row: skip or stop.")]
DeadLetter = Annotated[
    Path | None, typer.Option(help="Where bad rows go, with the reason; else OUTPUT.bad.jsonl, if there are any.")
]
NewClasses = Annotated[
    str, typer.Option(help="What to do with a label unknown to the model: learn it, or refuse it as a bad row.")
]
Format = Annotated[
    str | None, typer.Option(help="csv, tsv, jsonl, parquet or arrow; else by the suffix, else by the first line.")
]
Proba = Annotated[bool, typer.Option("--proba", help="The probability of every class, not only of the prediction.")]
LabelTimeout = Annotated[float | None, typer.Option(help="Seconds after which a label is no longer awaited (journal).")]
MaxPending = Annotated[int | None, typer.Option(help="Rows that may wait for their labels; 100000 at first.")]
SnapshotEvery = Annotated[int | None, typer.Option(help="Labels between two snapshots of the journal; 5000 at first.")]
KeepEvents = Annotated[
    int | None, typer.Option(help="Rows with their labels that stay in the journal; 100000 at first.")
]
Group = Annotated[str, typer.Option(help="Consumer group at a broker.")]
AcceptLoss = Annotated[
    bool, typer.Option("--accept-loss", help="Go on with a journal whose newest events are missing.")
]
