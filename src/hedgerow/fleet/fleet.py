"""Fleet: one set of sources, a model for every key, in bounded memory and one file.

A batch of labelled rows is in the journal of the file before it is learned and acknowledged. What a key has learned
goes to its state when it leaves memory, or when the journal has grown long; after a crash the rest is learned again
from the journal, in order: every label once.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.values import MISSING, plain
from hedgerow.estimator import NamedValues, OnlineTransferClassifier
from hedgerow.files import write_whole
from hedgerow.fleet.base import Base, KeyState
from hedgerow.fleet.batch import Batch, DeadLetter, Key, checked, checked_key
from hedgerow.fleet.holder import Holder, Predictions, in_parts
from hedgerow.fleet.store import BASE, FleetStore, backup
from hedgerow.store import Closed, JournalError, Owner


# One key of a fleet as an estimator: what it learns is the key's, whoever holds it.
class Target(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """`fleet[key]`: the verbs of an `OnlineTransferClassifier`, without `fit`."""

    def __init__(self, fleet: Fleet, key: Key) -> None:
        self.fleet, self.key = fleet, key

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Target:
        return self  # a key is one, however often it is asked for

    def predict(self, X: Any) -> Array:
        """The most likely class of each row."""
        return self.fleet.predict([self.key] * len(X), X)

    def predict_proba(self, X: Any) -> Array:
        """A probability a class of `classes_`."""
        parts = self.fleet.probabilities([self.key] * len(X), X)
        return np.asarray(parts[0].P) if parts else np.empty((0, len(self.classes_)))

    def predict_set(self, X: Any, coverage: float | None = None) -> Array:
        """The set of each row, as `OnlineTransferClassifier.predict_set` gives it."""
        return self.model().predict_set(X, coverage)

    def predict_one(self, x: Any) -> Any:
        """The most likely class of one instance."""
        return plain(self.predict(self._row(x))[0])

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Target:
        """Learn labelled rows in order; `classes` is there for scikit-learn, the fleet knows its own."""
        self.fleet.learn([self.key] * len(X), X, y, sample_weight)
        return self

    def learn_one(self, x: Any, y: Any, weight: float = 1.0) -> Target:
        """Learn one instance."""
        self.fleet.learn([self.key], self._row(x), [y], None if weight == 1 else [weight])
        return self

    def predict_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """The prediction made for each row before its label was learned."""
        return self.fleet.predict_then_learn([self.key] * len(X), X, y, sample_weight)

    def model(self) -> OnlineTransferClassifier:
        """A model of one's own that knows what the key knows, to look at or to save."""
        return self.fleet.model(self.key)

    @property
    def classes_(self) -> Array:
        """The classes of the sources, then those that this key has met."""
        return self.model().classes_

    @property
    def seen_(self) -> int:
        """Labels learned so far."""
        return self.model().seen_

    @property
    def mistakes_(self) -> int:
        """Mistakes so far."""
        return self.model().mistakes_

    @property
    def coverage_(self) -> dict[float, float]:
        """Coverage -> the share of labels that were in their set so far."""
        return self.model().coverage_

    @property
    def weights_(self) -> NamedValues:
        """How much each expert is trusted, by name."""
        return self.model().weights_

    def _row(self, x: Any) -> Array:
        row = self.fleet.base.clf.as_row(x)
        return np.asarray(row)[None] if row.ndim == 1 else np.asarray(row.toarray())


JOURNAL = 64 * 2**20  # bytes of the journal beyond which states are written, so that it becomes shorter
MEMORY = 2**30
WIDE = 2048  # bytes of a row that is long
Letters = list[DeadLetter] | None


class Fleet:
    """Keyed targets that share their sources. Use it in a `with`, or close it.

    Parameters
    ----------
    sources : labelled domains, fitted once; every key starts from them. Or a `Base`, or a fitted model without labels
        of a target.
    method, options : as for `OnlineTransferClassifier`.
    path : a folder for what the keys learn; None: a temporary one, gone with the fleet. `Fleet.open` goes on with it.
    memory : bytes of keys that are held in memory; others are on disk and come back when they are asked for.
    sync : "full" waits for the disk at every batch of labels; "normal" survives the end of the process only.

    Examples
    --------
    >>> sources = [Domain("a", np.eye(4), ["x", "y", "x", "y"])]
    >>> with Fleet(sources, "hedgerow-linear") as fleet:
    ...     said = fleet.predict(["site-1", "site-2"], np.eye(4)[:2]).tolist()
    ...     fleet.learn(["site-1", "site-2"], np.eye(4)[:2], ["x", "x"])["site-1"].seen_
    1
    """

    def __init__(
        self,
        sources: Sequence[Domain] | Base | OnlineTransferClassifier,
        method: str = "hedgerow",
        *,
        path: str | os.PathLike[str] | None = None,
        memory: int = MEMORY,
        sync: str = "full",
        **options: Any,
    ) -> None:
        base = _base(sources, method, options)
        memory = _memory(memory)
        if sync not in ("full", "normal"):
            raise InputError(f"sync={sync!r}: 'full' or 'normal'")
        self._temporary = path is None
        folder = Path(tempfile.mkdtemp(prefix="hedgerow-fleet-") if path is None else path)
        if (folder / FleetStore.FILE).exists():
            raise InputError(f"{folder} has a fleet already: Fleet.open goes on with it, or choose another folder")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / BASE, base.to_bytes())
        except OSError as error:
            raise JournalError(f"cannot write to {folder}: {error.strerror}") from error
        self._begin(folder, base, memory, sync)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, memory: int = MEMORY, accept_loss: bool = False) -> Self:
        """Go on with a fleet, however its process ended.

        `accept_loss`: open it though the newest batches, which were acknowledged, are missing from its file.
        """
        folder = Path(path)
        if not (folder / FleetStore.FILE).is_file():
            raise InputError(f"{folder} has no fleet; Fleet(sources, path=..) makes one")
        fleet = cls.__new__(cls)
        fleet._temporary = False
        base = Base(OnlineTransferClassifier.load(folder / BASE))
        fleet._begin(folder, base, _memory(memory), None, accept_loss)
        return fleet

    def _begin(self, folder: Path, base: Base, memory: int, sync: str | None, accept_loss: bool = False) -> None:
        """A new fleet says how it waits for the disk (`sync`); one that was there knows."""
        self.folder, self.base, self._lock, self._closed = folder, base, threading.RLock(), False
        self._owner = Owner(folder)
        try:
            wide = 8 * base.n_features >= WIDE
            self._store = FleetStore(folder, create=sync is not None, wide=wide, accept_loss=accept_loss)
        except BaseException:
            self._owner.release()
            raise
        self._holder = Holder(base, self._store, memory)
        try:
            self._check_file(sync, accept_loss)
            self._recover()
        except BaseException:
            if not self._closed:
                self._let_go()
            raise

    # -- its file: batches into the journal, rows of keys into their states, memory made free -----------------------

    def _check_file(self, sync: str | None, accept_loss: bool) -> None:
        """A new file says what it is (`sync` given); one that was there has to be whole, and of this base."""
        store, digest = self._store, self.base.digest.hex()
        if sync is not None:
            with store.transaction():
                store.set_meta("about", {"base": digest, "sync": sync})
        store.verify(accept_loss=accept_loss)
        with store.errors():
            about = store.meta("about")
            if about["base"] != digest:
                raise JournalError(f"{store.folder}: its {BASE} is not the one that its keys belong to; restore it")
            store.set_sync(about["sync"])

    def _note(self, batch: Batch, mark: Any) -> int:
        """The batch is in the journal; keys with the oldest rows there are written where it has grown long."""
        store, holder, data = self._store, self._holder, batch.to_bytes()
        written: list[Key] = []
        with store.transaction():
            if store.journal_bytes + len(data) > JOURNAL and holder.dirty:
                written = holder.write(list(holder.dirty)[: 2 * len(batch) + 1])
                gone = set(written)
                left = next((first for key, first in holder.dirty.items() if key not in gone), None)
                store.trim(store.last + 1 if left is None else left)
            if mark is not None:
                store.set_meta("mark", mark)
            number = store.note(data)
        holder.written(written)
        return number

    def _write(self, keys: Sequence[Key]) -> None:
        """What these keys have learned goes to their states."""
        dirty = [key for key in keys if key in self._holder.dirty]
        if dirty:
            with uninterrupted():
                with self._store.transaction():
                    written = self._holder.write(dirty)
                self._holder.written(written)

    def _state(self, key: Key) -> KeyState:
        """All that a key has learned, as the file has it now."""
        self._write([checked_key(key)])
        return self._holder.stored_state(checked_key(key))[1]

    def _recover(self) -> None:
        """Learn again what is in the journal and in no state."""
        for number, data in self._store.batches():
            batch = Batch.from_bytes(data)
            upto = {key: self._store.upto(key) for key in set(batch.keys)}
            rows = [i for i, key in enumerate(batch.keys) if upto[key] < number]
            self._applied(batch.some(rows), number)

    # -- the verbs ----------------------------------------------------------------------------------------------

    def predict(self, keys: Any, X: Any, *, dead_letters: Letters = None) -> Array:
        """The most likely class of each row for its key; None for a row that went to `dead_letters`."""
        return self._labels(len(keys), self.probabilities(keys, X, dead_letters=dead_letters))

    def predict_proba(self, keys: Any, X: Any, *, dead_letters: Letters = None) -> Array:
        """A probability a class of `classes_`; a row of NaN for one that went to `dead_letters`."""
        parts = self.probabilities(keys, X, dead_letters=dead_letters)
        column = {label: k for k, label in enumerate(self.classes_.tolist())}
        out = np.full((len(keys), len(column)), np.nan)
        for part in parts:
            out[part.places] = 0.0
            out[np.ix_(part.places, [column[label] for label in part.classes.tolist()])] = part.P
        return out

    def learn(
        self, keys: Any, X: Any, y: Any, sample_weight: Any = None, *, mark: Any = None, dead_letters: Letters = None
    ) -> Self:
        """Labelled rows, each for its key, in order; on disk when it returns. A label may be None.

        `mark` says how far an input was read (anything that JSON can write); it is on disk with the rows or not at all.
        """
        self._learned(keys, X, y, sample_weight, mark, dead_letters)
        return self

    def predict_then_learn(
        self, keys: Any, X: Any, y: Any, sample_weight: Any = None, *, mark: Any = None, dead_letters: Letters = None
    ) -> Array:
        """The prediction made for each row before its label was learned; otherwise as `learn`."""
        return self._labels(len(keys), self._learned(keys, X, y, sample_weight, mark, dead_letters))

    @property
    def mark(self) -> Any:
        """The newest mark that was given with rows; None if there is none."""
        with self._open():
            return self._store.meta("mark")

    def warm_up(self, key: Key, X: Any) -> Self:
        """Unlabelled rows of a key, before its stream: they move its mean, and join its pool, where there is one."""
        n = len(X)
        return self.learn([key] * n, X, [None] * n)

    @property
    def classes_(self) -> Array:
        """The classes of the sources, then others, in the order in which keys in memory were found to have them."""
        new = list(self._holder.new_classes)  # at once: nobody waits here for a batch that is being learned
        return np.array([*self.base.classes.tolist(), *new], dtype=object) if new else self.base.classes

    # -- keys ---------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Key) -> Target:
        """The estimator of one key."""
        return Target(self, checked_key(key))

    def __contains__(self, key: object) -> bool:
        with self._open():
            key = checked_key(key)
            return (key in self._holder.held and bool(self._holder.held[key].rows)) or bool(self._store.parts(key))

    def keys(self) -> list[Key]:
        """All keys that have learned something, in no order."""
        with self._open():
            self.flush()
            return list(self._store.keys())

    def model(self, key: Key) -> OnlineTransferClassifier:
        """A model of one's own that knows what the key knows; what it learns from then on is not the key's."""
        with self._open():
            return self.base.model(self._state(key), f"key {key!r}")

    def to_bytes(self, key: Key) -> bytes:
        """The state of a key, as `Base.member` and `put` take it."""
        with self._open():
            return self._state(key).to_bytes(self.base.digest)

    def put(self, key: Key, state: bytes) -> None:
        """A key with this state, in place of what it had."""
        whole = self.base.member(state, f"key {key!r}").state()  # whatever is wrong with it is an error here
        with self._open(), uninterrupted():
            self._drop(checked_key(key))
            number = self._store.last
            with self._store.transaction():
                self._store.put_state(key, whole, number, self.base.digest)

    def forget(self, key: Key) -> None:
        """All that a key has learned is gone, from the journal of the file too."""
        with self._open(), uninterrupted():
            self._drop(checked_key(key))
            with self._store.transaction():
                self._store.forget(key)

    def _drop(self, key: Key) -> None:
        """Out of memory and out of the journal: recovery must not bring it back."""
        self._holder.begin_prediction()  # what was predicted for it holds no longer
        self.flush()
        if key in self._holder.held:
            self._holder.leave([key])

    # -- batches ------------------------------------------------------------------------------------------------

    def probabilities(self, keys: Any, X: Any, *, dead_letters: Letters = None) -> list[Predictions]:
        """Probabilities of some rows after the other, a column a class that their keys know."""
        with self._open():
            batch, places = checked(self.base.clf, keys, X, None, None, dead_letters)
            self._holder.begin_prediction()
            predicted: list[Predictions] = []
            for parts in self._parts(batch):
                bad = self._holder.fetch(key for part in parts for key, _ in part)
                good = [self._without(part, bad, places, dead_letters) for part in parts]
                predicted.extend(self._holder.predict(batch, good))
            return _at(places, predicted)

    def _parts(self, batch: Batch) -> Iterator[list[list[tuple[Key, list[int]]]]]:
        """Rows of some keys after the other, as many parts at once as there are threads; memory is made free before."""
        parts = in_parts(batch.by_key.items())
        while some := list(itertools.islice(parts, self._holder.threads)):
            leaving = self._holder.too_many()
            self._write(leaving)
            self._holder.leave(leaving)
            yield some

    def _learned(self, keys: Any, X: Any, y: Any, sample_weight: Any, mark: Any, letters: Letters) -> list[Predictions]:
        if y is None:
            raise InputError("learn needs a label for each row (None for one without)")
        with self._open():
            batch, places = checked(self.base.clf, keys, X, y, sample_weight, letters)
            batch, places = self._readable(batch, places, letters)
            with uninterrupted():
                number = self._note(batch, mark)
                return _at(places, self._applied(batch, number))

    def _readable(self, batch: Batch, places: list[int], letters: Letters) -> tuple[Batch, list[int]]:
        """Without keys whose state cannot be read or whose labels cannot be learned: said before anything changes."""
        bad: dict[Key, InputError] = {}
        unknown = {batch.keys[i] for i in np.flatnonzero(batch.codes(self.base.clf) < MISSING)}
        for key, rows in batch.by_key.items():
            if key not in self._holder.held and self._store.parts(key):
                try:
                    self._holder.stored_state(key)
                except InputError as error:
                    bad[key] = error
                    continue
            if key in unknown:
                try:
                    self._check_labels(key, batch.labels[rows])
                except InputError as error:
                    bad[key] = InputError(f"key {key!r}: {error}")
        if not bad:
            return batch, places
        good = self._without(list(batch.by_key.items()), bad, places, letters)
        rows = sorted(i for _, own in good for i in own)
        return batch.some(rows), [places[i] for i in rows]

    def _check_labels(self, key: Key, labels: Array) -> None:
        self._holder.fetch([key])
        clf = self._holder.held[key].clf
        (self.base.clf if clf is None else clf).check_labels(labels)

    def _applied(self, batch: Batch, number: int) -> list[Predictions]:
        """What the journal has is learned. An error here leaves memory behind the journal: the fleet closes itself."""
        predicted: list[Predictions] = []
        try:
            for parts in self._parts(batch):
                self._holder.fetch(key for part in parts for key, _ in part)
                predicted.extend(self._holder.learn(batch, parts, number))
        except BaseException:
            self._let_go()
            raise
        return predicted

    @staticmethod
    def _without(
        part: list[tuple[Key, list[int]]], bad: dict[Key, InputError], places: list[int], letters: Letters
    ) -> list[tuple[Key, list[int]]]:
        if not bad:
            return part
        if letters is None:
            raise next(iter(bad.values()))
        for key, rows in part:
            if key in bad:
                letters.extend(DeadLetter(places[i], key, str(bad[key])) for i in rows)
        return [(key, rows) for key, rows in part if key not in bad]

    def _labels(self, n: int, predicted: list[Predictions]) -> Array:
        labels = np.full(n, None, dtype=object)
        for part in predicted:
            labels[part.places] = part.classes[part.P.argmax(axis=1)]
        kind = self.base.classes.dtype
        whole = kind.kind != "O" and all(label is not None for label in labels)
        return labels.astype(kind) if whole and kind.kind != "U" else labels.astype(str) if whole else labels

    def flush(self) -> None:
        """Write what all keys have learned to their states; the journal is empty then."""
        with self._open(), uninterrupted():
            self._write(list(self._holder.dirty))
            if self._store.journal_bytes:
                with self._store.transaction():
                    self._store.trim(self._store.last + 1)

    def backup(self, folder: str | os.PathLike[str]) -> None:
        """A copy of everything as it is now, in a new folder that can be opened like this one."""
        with self._open():
            backup(self.folder, folder)

    def stats(self) -> dict[str, Any]:
        """Keys and bytes, in memory and on disk. It does not wait for a batch that is being learned."""
        self._open()
        holder, store, held = self._holder, self._store, list(self._holder.held.values())
        own = sum(each.clf is not None for each in held)
        return {
            "held": len(held),
            "light": len(held) - own,
            "own": own,
            "bytes": holder.bytes,
            "limit": holder.limit,
            "misses": holder.misses,
            "evicted": holder.evicted,
            "rows_stored": store.stored,
            "journal_bytes": store.journal_bytes,
            "file_bytes": store.bytes,
        }

    # -- the end ------------------------------------------------------------------------------------------------

    def _open(self) -> threading.RLock:
        if self._closed:
            raise Closed(f"the fleet in {self.folder} was closed; Fleet.open goes on with it")
        return self._lock

    def close(self) -> None:
        """Write all states and let the folder go; a temporary one is removed."""
        with self._lock:
            if self._closed:
                return
            try:
                if not self._temporary:
                    self.flush()
            finally:
                self._let_go()

    def _let_go(self) -> None:
        self._closed = True
        self._holder.close()
        self._store.close()
        self._owner.release()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _at(places: list[int], predicted: list[Predictions]) -> list[Predictions]:
    """The same by the places that the rows had before some were left out."""
    return [replace(part, places=[places[i] for i in part.places]) for part in predicted]


def _base(sources: Any, method: str, options: dict[str, Any]) -> Base:
    if isinstance(sources, Base | OnlineTransferClassifier):
        if options or method != "hedgerow":
            raise InputError("a fleet from a fitted model takes neither a method nor options: the model has them")
        return sources if isinstance(sources, Base) else Base(sources)
    return Base.fit(sources, method, **options)


def _memory(memory: Any) -> int:
    if isinstance(memory, bool) or not isinstance(memory, int | np.integer) or memory < 2**20:
        raise InputError(f"memory={memory!r}: a number of bytes, at least {2**20} (1 MiB)")
    return int(memory)
