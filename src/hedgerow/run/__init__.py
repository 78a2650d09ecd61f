"""`hedgerow run`: rows come in, predictions go out, labels are learned, and nothing is lost on the way."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

BROKERS = ("redis://", "rediss://", "kafka://")


@dataclass(frozen=True)
class Job:
    """What to run: every field is an option of `hedgerow run`, and what stands under it is the help.

    Parameters
    ----------
    model : Path
        A model made by `hedgerow fit` or `save`.
    input : str
        Rows: a file, folder or pattern (csv, tsv, jsonl, parquet, arrow; .gz), - for standard input,
        redis://HOST/STREAM or kafka://HOST/TOPIC (?group=NAME of its consumers, else hedgerow).
    output : str
        Predictions as JSON lines: a file, - for standard output, redis://HOST/STREAM.
    label : str, optional
        The label column, to learn from; rows with an empty cell are used unlabelled where possible.
    id : str, optional
        The column that names a row; it is echoed, and labels may come by it.
    labels : Path, optional
        Labels by id, in a file of their own (.csv, .tsv, .jsonl) that may grow.
    journal : Path, optional
        Folder in which everything is kept: after a crash the same command goes on where it was.
    save : Path, optional
        Where the model goes at the end, also after Ctrl-C.
    append : bool
        Add to an output file that has content already.
    overwrite : bool
        Replace an output file that has content already.
    on_error : str
        What to do with a bad row: skip or stop.
    dead_letter : Path, optional
        Where bad rows go, with the reason; else OUTPUT.bad.jsonl, if there are any.
    new_classes : str
        What to do with a label unknown to the model: learn it, or refuse it as a bad row.
    format : str, optional
        csv, tsv, jsonl, parquet or arrow; else by the suffix, else by the first line.
    proba : bool
        The probability of every class, not only of the prediction.
    accept_loss : bool
        Go on with a journal whose newest events are missing.
    settings : Mapping
        Settings of the live model that were asked for.
    """

    model: Path
    input: str
    output: str
    label: str | None = None
    id: str | None = None
    labels: Path | None = None
    journal: Path | None = None
    save: Path | None = None
    append: bool = False
    overwrite: bool = False
    on_error: str = "skip"
    dead_letter: Path | None = None
    new_classes: str = "learn"
    format: str | None = None
    proba: bool = False
    accept_loss: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The consumer group at a broker, as the address of the input names it."""
        return dict(parse_qsl(urlsplit(self.input).query)).get("group", "hedgerow")

    @property
    def is_pipe(self) -> bool:
        """Whether rows come from standard input or a named pipe."""
        from hedgerow.rows.inputs import is_pipe

        return self.input == "-" or (
            not self.input.startswith(BROKERS) and is_pipe(Path(self.input))
        )

    @property
    def dead_letter_file(self) -> Path | None:
        """Where rows go that cannot be used: as asked, else beside the output file."""
        output = self.output
        no_file = (
            output == "-"
            or output.startswith(BROKERS)
            or (os.path.exists(output) and not os.path.isfile(output))
        )
        return (
            self.dead_letter
            if self.dead_letter is not None or no_file
            else Path(f"{output}.bad.jsonl")
        )
