"""Fleet: one set of sources, a model for every key, in bounded memory and one file.

A batch of labelled rows is in the journal of the file before it is learned and acknowledged. What a key has learned
goes to its state when it leaves memory, or when the journal has grown long; after a crash the rest is learned again
from the journal, in order: every label once.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import joblib
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.values import MISSING, plain
from hedgerow.coverage import level_of
from hedgerow.files import write_whole
from hedgerow.fleet.base import (
    Base,
    Batch,
    DeadLetter,
    Key,
    KeyModel,
    KeyState,
    Model,
    check_labels,
    checked,
    checked_key,
    classifier,
    codes_of,
    regressor,
)
from hedgerow.fleet.holder import Holder, Predictions
from hedgerow.fleet.store import BASE, WIDE_PAGE, FleetStore, backup
from hedgerow.regressor import OnlineTransferRegressor, load_model
from hedgerow.store import PAGE, Closed, JournalError, Owner


# One key of a fleet as an estimator: what it learns is the key's, whoever holds it.
class Target(KeyModel, BaseEstimator):  # type: ignore[misc]
    """`fleet[key]`: the verbs of an `OnlineTransferClassifier` or `OnlineTransferRegressor`, without `fit`."""

    def __init__(self, fleet: Fleet, key: Key) -> None:
        self.fleet, self.key = fleet, key

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Target:
        return self  # a key is one, however often it is asked for

    def predict(self, X: Any) -> Array:
        """The most likely class of each row, or its number."""
        return self.fleet.predict([self.key] * len(X), X)

    def predict_interval(self, X: Any, coverage: float | None = None) -> Array:
        """The interval of each row, as `OnlineTransferRegressor.predict_interval` gives it."""
        return self.fleet.predict_interval([self.key] * len(X), X, coverage)

    def predict_proba(self, X: Any) -> Array:
        """A probability a class of `classes_`."""
        parts = self.fleet.probabilities([self.key] * len(X), X)
        return np.asarray(parts[0].P) if parts else np.empty((0, len(self.classes_)))

    def predict_one(self, x: Any) -> Any:
        """The most likely class of one instance, or its number."""
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

    def model(self) -> Model:
        """A model of one's own that knows what the key knows, to look at or to save."""
        return self.fleet.model(self.key)

    def _row(self, x: Any) -> Array:
        row = self.fleet.base.clf.as_row(x)
        return np.asarray(row)[None] if row.ndim == 1 else np.asarray(row.toarray())


class ClassTarget(ClassifierMixin, Target):  # type: ignore[misc]
    """A key of a fleet of classifiers."""


class NumberTarget(RegressorMixin, Target):  # type: ignore[misc]
    """A key of a fleet of regressors."""


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
    method, options : as for `OnlineTransferClassifier`; or an estimator in place of both, such as
        `OnlineTransferRegressor()`, of which a clone is fitted.
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
        sources: Sequence[Domain] | Base | Model,
        method: str | Model = "hedgerow",
        *,
        path: str | os.PathLike[str] | None = None,
        memory: int = MEMORY,
        sync: str = "full",
        **options: Any,
    ) -> None:
        if isinstance(sources, Base | Model):
            if options or method != "hedgerow":
                raise InputError("a fleet from a fitted model takes neither a method nor options: the model has them")
            base = sources if isinstance(sources, Base) else Base(sources)
        else:
            base = Base.fit(sources, method, **options)
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
        base = Base(load_model(folder / BASE))
        fleet._begin(folder, base, memory, None, accept_loss)
        return fleet

    def _begin(self, folder: Path, base: Base, memory: Any, sync: str | None, accept_loss: bool = False) -> None:
        """A new fleet says how it waits for the disk (`sync`); one that was there knows."""
        if isinstance(memory, bool) or not isinstance(memory, int | np.integer) or memory < 2**20:
            raise InputError(f"memory={memory!r}: a number of bytes, at least {2**20} (1 MiB)")
        self.folder, self.base, self._lock, self._closed = folder, base, threading.RLock(), False
        with ExitStack() as undo:
            if self._temporary:
                undo.callback(shutil.rmtree, folder, ignore_errors=True)
            self._owner = Owner(folder)
            undo.callback(self._owner.release)
            page = WIDE_PAGE if 8 * base.n_features >= WIDE else PAGE
            self._store = FleetStore(folder, create=sync is not None, page=page, accept_loss=accept_loss)
            undo.callback(self._store.close)
            self._holder = Holder(base, self._store, int(memory), joblib.cpu_count())
            undo.callback(self._holder.close)
            self._check_file(sync, accept_loss)
            self._recover()
            undo.pop_all()

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
        long = store.journal_bytes + len(data) > JOURNAL and len(holder.dirty) > 0
        if long:
            holder.write(list(holder.dirty)[: 2 * len(batch.keys) + 1])
        with store.transaction():
            if long:
                store.trim(next(iter(holder.dirty.values()), store.last + 1))
            if mark is not None:
                store.set_meta("mark", mark)
            return store.note(data)

    def _recover(self) -> None:
        """Learn again what is in the journal and in no state."""
        for number, data in self._store.batches():
            batch = Batch.from_bytes(data)
            upto = {key: self._store.upto(key) for key in set(batch.keys)}
            self._holder.run(batch.some([i for i, key in enumerate(batch.keys) if upto[key] < number]), number)

    # -- the verbs ----------------------------------------------------------------------------------------------

    def predict(self, keys: Any, X: Any, *, dead_letters: Letters = None) -> Array:
        """The most likely class of each row for its key, or its number.

        None, or NaN, for a row that went to `dead_letters`.
        """
        return self._labels(len(keys), self.predictions(keys, X, dead_letters=dead_letters))

    def predict_interval(
        self, keys: Any, X: Any, coverage: float | None = None, *, dead_letters: Letters = None
    ) -> Array:
        """An interval a row, of a fleet of regressors; NaN for a row that went to `dead_letters`.

        `coverage` is one of those that the regressor was made with; None is the first of them.
        """
        at, out = level_of(list(regressor(self.base.clf).coverage_), coverage), np.full((len(keys), 2), np.nan)
        for part in self.predictions(keys, X, dead_letters=dead_letters):
            assert part.half is not None
            out[part.places] = part.P[:, None] + part.half[:, [at]] * [-1, 1]
        return out

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
        classifier(self.base.clf)  # refused of numbers
        new = list(self._holder.new_classes)  # at once: nobody waits here for a batch that is being learned
        return np.array([*self.base.classes.tolist(), *new], dtype=object) if new else self.base.classes

    # -- keys ---------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Key) -> Target:
        """The estimator of one key."""
        kind = NumberTarget if isinstance(self.base.clf, OnlineTransferRegressor) else ClassTarget
        return kind(self, checked_key(key))

    def __contains__(self, key: object) -> bool:
        with self._open():
            key = checked_key(key)
            return (key in self._holder.held and bool(self._holder.held[key].rows)) or bool(self._store.parts(key))

    def keys(self) -> list[Key]:
        """All keys that have learned something, in no order."""
        with self._open():
            self.flush()
            return list(self._store.keys())

    def model(self, key: Key) -> Model:
        """A model of one's own that knows what the key knows; what it learns from then on is not the key's."""
        with self._open():
            return self.base.model(self._holder.state(checked_key(key)), f"key {key!r}")

    def to_bytes(self, key: Key) -> bytes:
        """The state of a key, as `Base.member` and `put` take it."""
        with self._open():
            return self._holder.state(checked_key(key)).to_bytes(self.base.digest)

    def put(self, key: Key, state: bytes) -> None:
        """A key with this state, in place of what it had."""
        # whatever is wrong with it is an error here
        self._replace(key, self.base.member(state, f"key {key!r}").state())

    def forget(self, key: Key) -> None:
        """All that a key has learned is gone, from the journal of the file too."""
        self._replace(key, None)

    def _replace(self, key: Key, state: KeyState | None) -> None:
        key = checked_key(key)
        with self._open(), uninterrupted():
            self.flush()  # recovery must not bring it back from the journal
            self._holder.drop(key)
            self._holder.last = []  # what was predicted for it holds no longer
            with self._store.transaction():
                self._store.forget(key)
                if state is not None and (state.snapshot or len(state)):
                    self._store.put([(key, self._store.last, len(state), state.to_bytes(self.base.digest))])

    # -- batches ------------------------------------------------------------------------------------------------

    def probabilities(self, keys: Any, X: Any, *, dead_letters: Letters = None) -> list[Predictions]:
        """Probabilities of some rows after the other, a column a class that their keys know."""
        classifier(self.base.clf)
        return self.predictions(keys, X, dead_letters=dead_letters)

    def predictions(self, keys: Any, X: Any, *, dead_letters: Letters = None) -> list[Predictions]:
        """Probabilities, or numbers and their intervals, of some rows after the other."""
        with self._open():
            batch, places = checked(self.base.clf, keys, X, None, None, dead_letters)
            predicted, bad = self._holder.run(batch)
            _refuse(batch, places, bad, dead_letters)
            return _at(places, predicted)

    def _learned(self, keys: Any, X: Any, y: Any, sample_weight: Any, mark: Any, letters: Letters) -> list[Predictions]:
        if y is None:
            raise InputError("learn needs a label for each row (None for one without)")
        with self._open():
            batch, places = checked(self.base.clf, keys, X, y, sample_weight, letters)
            if bad := self._cannot_learn(batch):  # said before anything changes
                _refuse(batch, places, bad, letters)
                rows = [i for i, key in enumerate(batch.keys) if key not in bad]
                batch, places = batch.some(rows), [places[i] for i in rows]
            if isinstance(self.base.clf, OnlineTransferRegressor):  # of whatever type the numbers came
                batch = replace(batch, labels=codes_of(self.base.clf, batch.labels))
            with uninterrupted():
                number = self._note(batch, mark)
                try:
                    return _at(places, self._holder.run(batch, number)[0])
                except BaseException:  # memory is behind the journal: the fleet closes itself
                    self._let_go()
                    raise

    def _cannot_learn(self, batch: Batch) -> dict[Key, InputError]:
        """The keys whose state cannot be read or whose labels cannot be learned, with the reason."""
        bad: dict[Key, InputError] = {}
        clf = self.base.clf
        numbers, unknown = isinstance(clf, OnlineTransferRegressor), set[Key]()
        if not numbers:
            unknown = {batch.keys[i] for i in np.flatnonzero(batch.codes(clf) < MISSING)}
        for key, rows in batch.by_key.items():
            try:
                if key not in self._holder.held:
                    self._holder.stored_state(key)
            except InputError as error:
                bad[key] = error
                continue
            try:
                if numbers or key in unknown:
                    check_labels(clf if numbers else self._holder.model(key), batch.labels[rows])
            except InputError as error:
                bad[key] = InputError(f"key {key!r}: {error}")
        return bad

    def _labels(self, n: int, predicted: list[Predictions]) -> Array:
        numbers = isinstance(self.base.clf, OnlineTransferRegressor)
        labels = np.full(n, np.nan) if numbers else np.full(n, None, dtype=object)
        for part in predicted:
            labels[part.places] = part.labels
        if numbers:
            return labels
        kind = self.base.classes.dtype
        whole = kind.kind != "O" and all(label is not None for label in labels)
        return labels.astype(kind) if whole and kind.kind != "U" else labels.astype(str) if whole else labels

    def flush(self) -> None:
        """Write what all keys have learned to their states; the journal is empty then."""
        with self._open(), uninterrupted():
            self._holder.write(list(self._holder.dirty))
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


def _refuse(batch: Batch, places: list[int], bad: dict[Key, InputError], letters: Letters) -> None:
    """Rows of keys that cannot be used are an error, or letters."""
    for key, error in bad.items():
        if letters is None:
            raise error
        letters.extend(DeadLetter(places[i], key, str(error)) for i in batch.by_key[key])


def _at(places: list[int], predicted: list[Predictions]) -> list[Predictions]:
    """The same by the places that the rows had before some were left out."""
    return [replace(part, places=[places[i] for i in part.places]) for part in predicted]
