"""Fleet: one set of sources, a model for every key, in bounded memory and one file.

A batch of labelled rows is in the journal of the file before it is learned and acknowledged. What a key has learned
goes to its state when it leaves memory, or when the journal has grown long; after a crash the rest is learned again
from the journal, in order: every label once.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, overload

import joblib
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.registry import of_json
from hedgerow.core.values import Forgotten, objects, plain
from hedgerow.coverage import level_of
from hedgerow.events import (
    REFUSED,
    Clock,
    LabelResult,
    check_id,
    digest_of,
    label_of_json,
    label_to_json,
)
from hedgerow.files import read_file, write_whole
from hedgerow.fleet.base import (
    Base,
    Batch,
    DeadLetter,
    Key,
    KeyModel,
    KeyState,
    Settings,
    checked,
    checked_key,
)
from hedgerow.fleet.holder import Holder, Predictions
from hedgerow.fleet.store import (
    BASE,
    BASES,
    NO_SOURCES,
    SOURCES,
    WIDE,
    WIDE_PAGE,
    FleetStore,
    KeyEvent,
    KeyLedger,
    keeps_sources,
)
from hedgerow.fleet.teaching import Taught, admitted, chosen, fit
from hedgerow.regressor import load_model
from hedgerow.store import PAGE, Closed, JournalError, copy_folder
from hedgerow.task import CLASSES, NUMBERS, Answer, Model


# One key of a fleet as an estimator: what it learns is the key's, whoever holds it.
class Target(KeyModel, BaseEstimator):  # type: ignore[misc]
    """`fleet[key]`: the verbs of an `OnlineTransferClassifier` or `OnlineTransferRegressor`, without `fit`."""

    def __init__(self, fleet: Fleet, key: Key) -> None:
        self.fleet = fleet
        self.key = key

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Target:
        return self  # a key is one, however often it is asked for

    def predict(self, X: Any) -> Array:
        """The most likely class of each row, or its number."""
        return np.asarray(self.fleet.predict(self.key, X))

    def predict_interval(self, X: Any, coverage: float | None = None) -> Array:
        """The interval of each row, as `OnlineTransferRegressor.predict_interval` gives it."""
        return self.fleet.predict_interval(self.key, X, coverage)

    def predict_proba(self, X: Any) -> Array:
        """A probability a class of `classes_`."""
        parts = self.fleet.probabilities(self.key, X)
        return np.asarray(parts[0].P) if parts else np.empty((0, len(self.classes_)))

    def predict_one(self, x: Any) -> Any:
        """The most likely class of one instance, or its number."""
        return plain(self.fleet.predict(self.key, self.fleet.base.row(x))[0])

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Target:
        """Learn labelled rows in order; `classes` is there for scikit-learn, the fleet knows its own."""
        self.fleet.learn(self.key, X, y, sample_weight)
        return self

    def learn_one(self, x: Any, y: Any, weight: float = 1.0) -> Target:
        """Learn one instance."""
        row = self.fleet.base.row(x)
        self.fleet.learn(self.key, row, [y], None if weight == 1 else [weight])
        return self

    def predict_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """The prediction made for each row before its label was learned."""
        return np.asarray(self.fleet.predict_then_learn(self.key, X, y, sample_weight))

    def model(self) -> Model:
        """A model of one's own that knows what the key knows, to look at or to save."""
        return self.fleet.model(self.key)


class ClassTarget(ClassifierMixin, Target):  # type: ignore[misc]
    """A key of a fleet of classifiers."""


class NumberTarget(RegressorMixin, Target):  # type: ignore[misc]
    """A key of a fleet of regressors."""


TARGETS: dict[str, type[Target]] = {CLASSES.name: ClassTarget, NUMBERS.name: NumberTarget}
JOURNAL = (
    64 * 2**20
)  # bytes of the journal beyond which states are written, so that it becomes shorter
MEMORY = 2**30
REMEMBERED = 512  # ids of batches: more than may wait, and be sent again
SHARE = (
    8  # of the keys before are new: the number of bases grows with the logarithm of that of keys
)
Letters = list[DeadLetter] | None
Keys = Sequence[Key] | Array
logger = logging.getLogger("hedgerow.fleet")


class Fleet:
    """Keyed targets that share their sources. Use it in a `with`, or close it.

    Parameters
    ----------
    sources : labelled domains as `fit_domains` takes them (with `label=`, the column of files and tables), fitted once;
        every key starts from them. Or a `Base`, or a fitted model without labels of a target.
    method, options : as for `OnlineTransferClassifier`; or an estimator in place of both, such as
        `OnlineTransferRegressor()`, of which a clone is fitted.
    path : a folder for what the keys learn; None: a temporary one, gone with the fleet. `Fleet.open` goes on with it.
    memory : bytes of keys that are held in memory; others are on disk and come back when they are asked for.
    sync : "full" waits for the disk at every batch of labels; "normal" survives the end of the process only.
    settings : how long the keys wait for labels that come later, and how many ids they remember.
    consolidate : with a number the rows of the sources, and of all keys, are kept, so that keys may teach new ones: a
        base is fitted whenever so many keys are new (`consolidate`), in a thread of its own; 0: only when asked for.

    Examples
    --------
    >>> sources = [(np.eye(4), ["x", "y", "x", "y"])]
    >>> with Fleet(sources, "hedgerow-linear") as fleet:
    ...     said = fleet.predict(["site-1", "site-2"], np.eye(4)[:2]).tolist()
    ...     fleet.learn(["site-1", "site-2"], np.eye(4)[:2], ["x", "x"])["site-1"].seen_
    1
    """

    def __init__(
        self,
        sources: Sequence[Any] | Mapping[str, Any] | Base | Model,
        method: str | Model = "hedgerow",
        *,
        path: str | os.PathLike[str] | None = None,
        memory: int = MEMORY,
        sync: str = "full",
        settings: Settings | None = None,
        consolidate: int | None = None,
        **options: Any,
    ) -> None:
        if isinstance(sources, Base | Model):
            if options or method != "hedgerow":
                raise InputError(
                    "a fleet from a fitted model takes neither a method nor options: the model has them"
                )
            base = sources if isinstance(sources, Base) else Base(sources)
        else:
            base = Base.fit(sources, method, keep=consolidate is not None, **options)
        if sync not in ("full", "normal"):
            raise InputError(f"sync={sync!r}: 'full' or 'normal'")
        self._temporary = path is None
        folder = Path(tempfile.mkdtemp(prefix="hedgerow-fleet-") if path is None else path)
        about = {"sync": sync, "settings": asdict(settings or Settings())}
        self._begin(folder, memory, base, about, consolidate=consolidate)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        settings: Settings | Mapping[str, Any] | None = None,
        *,
        memory: int = MEMORY,
        accept_loss: bool = False,
        consolidate: int | None = None,
    ) -> Self:
        """Go on with a fleet, however its process ended.

        `settings` replace those it had; a mapping of some changes these alone. `consolidate`: as of a new fleet.

        `accept_loss`: open it though the newest batches, which were acknowledged, are missing from its file.
        """
        fleet = cls.__new__(cls)
        fleet._temporary = False
        fleet._begin(Path(path), memory, None, None, settings, accept_loss, consolidate)
        return fleet

    def _begin(
        self,
        folder: Path,
        memory: Any,
        base: Base | None,
        about: dict[str, Any] | None,
        settings: Settings | Mapping[str, Any] | None = None,
        accept_loss: bool = False,
        consolidate: int | None = None,
    ) -> None:
        """A new fleet comes with its base and what its file says `about` it; one that was there knows."""
        self.folder = folder
        self._lock = threading.RLock()
        self._closed = False
        self._clock = Clock()
        self._every = 0  # new keys after which a base is fitted
        self._teaching = threading.Lock()  # one consolidation at a time
        self._erased = 0  # calls of `forget`, which a consolidation on its way has to notice
        self._unreadable: dict[
            Key, int
        ] = {}  # keys, and the first batch that no state of theirs has
        with ExitStack() as undo:
            if self._temporary:
                undo.callback(shutil.rmtree, folder, ignore_errors=True)
            if isinstance(memory, bool) or not isinstance(memory, int) or memory < 2**20:
                raise InputError(f"memory={memory!r}: a number of bytes, at least {2**20} (1 MiB)")
            if not (consolidate is None or (type(consolidate) is int and consolidate >= 0)):
                raise InputError(
                    f"consolidate={consolidate!r}: a number of new keys, 0 (only when asked) or None"
                )
            self._owner = (FleetStore.own if base is None else FleetStore.own_new)(folder)
            undo.callback(self._owner.release)
            if base is not None:
                undo.callback(FleetStore.remove, folder)
                self._create(base, about)
            self.sources_kept = keeps_sources(folder)
            if consolidate is not None and not self.sources_kept:
                raise InputError(NO_SOURCES)
            self._first = base or Base(load_model(folder / BASE))
            self._store = FleetStore(folder, accept_loss=accept_loss)
            undo.callback(self._store.close)
            self._check_file(settings, accept_loss)
            self._holder = Holder(
                [self._first, *map(self._read_base, self._taught)],
                self._store,
                memory,
                joblib.cpu_count(),
                snapshots=not self.sources_kept,
            )
            undo.callback(self._holder.close)
            self._recover()
            self._remove_bases()
            if consolidate:
                known = self._taught[-1].keys if self._taught else 0
                keys = len({*self._store.keys(), *self._holder.dirty})
                self._holder.arrived = max(keys - known, 0)
            self._every = consolidate or 0
            undo.pop_all()

    @property
    def base(self) -> Base:
        """Where new keys start: the sources, and keys that have taught (`consolidate`)."""
        return self._holder.base

    def _create(self, base: Base, about: dict[str, Any] | None) -> None:
        """The files of a new fleet."""
        folder = self.folder
        write_whole(folder / BASE, base.to_bytes(), JournalError)
        if base.sources is not None:
            with suppress(OSError):  # what is wrong is said by what is written there
                (folder / BASES).mkdir(exist_ok=True)
            write_whole(folder / BASES / SOURCES, base.sources.to_bytes(), JournalError)
        page = WIDE_PAGE if 8 * base.n_features >= WIDE else PAGE
        with FleetStore.new(folder, page=page) as store, store.transaction():
            store.set_meta("about", {**(about or {}), "base": base.digest.hex()})

    # -- its file: batches into the journal, rows of keys into their states, memory made free -----------------------

    def _check_file(self, settings: Settings | Mapping[str, Any] | None, accept_loss: bool) -> None:
        """The file has to be whole, and of this base; perhaps it gets other settings."""
        store = self._store
        store.verify(accept_loss=accept_loss)
        with store.errors():
            about = store.meta("about")
        if about["base"] != self._first.digest.hex():
            raise JournalError(
                f"{store.folder}: its {BASE} is not the one that its keys belong to; restore it"
            )
        self._taught = [Taught(*each) for each in store.meta("bases") or []]
        store.set_sync(about["sync"])
        kept = of_json(Settings, about["settings"])
        if not isinstance(settings, Settings):
            settings = replace(kept, **(settings or {}))
        self.settings = settings
        if settings != kept:
            with store.transaction():
                store.set_meta("about", about | {"settings": asdict(settings)})
        # events that were asked for until now age from now on at the latest: the clock may have been wrong
        self._opened = (store.last, self._clock.now())

    def _commit(
        self,
        batch: Batch,
        meta: Mapping[str, Any] = MappingProxyType({}),
        asked: Sequence[KeyEvent] = (),
        labelled: Sequence[KeyEvent] = (),
    ) -> list[Predictions]:
        """All of a call, on disk at once and then learned; with it the events that expire now.

        What can fail for want of room is done before. What is committed is acknowledged, whatever happens later.
        """
        store = self._store
        holder = self._holder
        now = self._clock.now()
        due: list[KeyEvent] = []
        if self.settings.label_timeout is not None:
            before = now - self.settings.label_timeout
            last, opened = self._opened
            with store.errors():
                due = store.due(before, last if opened <= before else 0)
        if not (batch.keys or asked or labelled or due or meta):
            return []
        with uninterrupted():
            holder.make_free(required=True)
            long = store.journal_bytes > JOURNAL and len(holder.dirty) > 0
            if long:  # keys with the oldest rows there are written, so that it becomes shorter
                holder.write(list(holder.dirty)[: 2 * len(batch.keys) + 1])
            with store.transaction():
                if long:
                    needed = (*islice(holder.dirty.values(), 1), *self._unreadable.values())
                    store.trim(min(needed, default=store.last + 1))
                for name, value in meta.items():
                    store.set_meta(name, value)
                store.add_events(asked)
                store.resolve(labelled)
                late = store.expire([*asked, *labelled], due, self.settings)
                batches = [batch, self._rows_of(late)]
                numbers = [store.note(each.to_bytes()) if each.keys else 0 for each in batches]
            try:
                predicted = self._learn(batch, numbers[0])
                self._learn(batches[1], numbers[1])
                self._consolidate_if_due()
                return predicted
            except BaseException as error:  # memory is behind the file: the fleet closes itself
                self._let_go()
                if not isinstance(error, Exception):
                    raise
                raise Closed(
                    f"{self.folder}: what was asked is on disk, and is learned when the fleet is opened again: do not "
                    f"send it again. The fleet closed itself: {type(error).__name__}: {error}"
                ) from error

    def _learn(self, batch: Batch, number: int) -> list[Predictions]:
        """Learn a batch that is in the journal; it stays there for keys whose state cannot be read."""
        if not batch.keys:
            return []
        predicted, bad = self._holder.run(batch, number)
        for key, error in bad.items():
            self._unreadable.setdefault(key, number)
            logger.error(
                "%s: %s; what it has learned since is kept in the journal", self.folder, error
            )
        return predicted

    def _recover(self) -> None:
        """Learn again what is in the journal and in no state."""
        for number, batch in self._batches():
            upto = {key: self._store.upto(key) for key in batch.by_key}
            rows = [i for i, key in enumerate(batch.keys) if upto[key] < number]
            self._learn(batch.some(rows), number)

    def _batches(self) -> Iterator[tuple[int, Batch]]:
        """The journal, in order."""
        for number, data in self._store.batches():
            yield (
                number,
                Batch.from_bytes(data, f"{self.folder}: batch {number} of the journal"),
            )

    def _trim(self, unreadable: Mapping[Key, int]) -> None:
        """Keep of the journal what these keys have in no state, from a batch of each on; the others have all."""
        store = self._store
        kept: list[tuple[int, Batch]] = []
        for number, batch in self._batches() if unreadable else ():
            rows = [
                i for i, key in enumerate(batch.keys) if unreadable.get(key, number + 1) <= number
            ]
            kept += [(number, batch.some(rows))] if rows else []
        store.trim(store.last + 1)
        for number, batch in kept:
            store.note(batch.to_bytes(), number)

    # -- the verbs ----------------------------------------------------------------------------------------------

    @overload
    def predict(
        self, keys: Key, X: Any, ids: None = None, *, dead_letters: Letters = None
    ) -> Any: ...
    @overload
    def predict(
        self, keys: Keys, X: Any, ids: None = None, *, dead_letters: Letters = None
    ) -> Array: ...
    @overload
    def predict(
        self, keys: Key | Keys, X: Any, ids: str, *, dead_letters: Letters = None
    ) -> Answer: ...
    @overload
    def predict(
        self, keys: Key | Keys, X: Any, ids: list[str], *, dead_letters: Letters = None
    ) -> list[Answer]: ...
    def predict(
        self,
        keys: Any,
        X: Any,
        ids: str | list[str] | None = None,
        *,
        dead_letters: Letters = None,
    ) -> Any:
        """The most likely class of each row for its key, or its number; of one row the label itself.

        A key in the place of a list is the key of one row, or of all.

        With `ids` a prediction waits for its label, as that of a live model, and is an `Answer`, on disk before it is
        given. The same id of a key again gives the same answer; other keys may have the same ids.

        None, or NaN, for a row that went to `dead_letters`.
        """
        one, keys, X = self.base.several(keys, X)
        said: Any
        if ids is None:
            said = self._labels(len(keys), self.predictions(keys, X, dead_letters=dead_letters))
            return plain(said[0]) if one else said
        said = self._ask(keys, X, [ids] if one else ids, dead_letters)
        return said[0] if one else said

    def label(self, key: Key, id: str, y: Any) -> LabelResult:
        """The label of an event of a key. Late, twice, or for an unknown id: see `LabelResult`."""
        return self.label_many([(key, id, y)])[0]

    def label_many(self, labels: Sequence[tuple[Key, str, Any]]) -> list[LabelResult]:
        """Labels of events: a key, an id and a label each; what became of them, in the same order."""
        try:
            given = [(key, (id, y)) for key, id, y in labels]
        except (TypeError, ValueError):
            raise InputError(
                "labels are triples of a key, an id and a label: [('till-1', 'order-17', 'mug'), ..]"
            ) from None
        by_key: dict[Key, dict[int, tuple[str, Any]]] = {}
        results: dict[int, LabelResult] = {}
        for place, (key, (id, y)) in enumerate(given):
            try:
                by_key.setdefault(checked_key(key), {})[place] = id, y
            except InputError as error:
                results[place] = LabelResult(id, REFUSED, y, str(error))
        labelled: list[KeyEvent] = []
        with self._open():
            for key, own in by_key.items():
                said = self._judge(key, list(own.values()), labelled)
                results.update(zip(own, said, strict=True))
            self._commit(self._rows_of(labelled), labelled=labelled)
        return [results[place] for place in sorted(results)]

    def predict_interval(
        self, keys: Any, X: Any, coverage: float | None = None, *, dead_letters: Letters = None
    ) -> Array:
        """An interval a row, of a fleet of regressors; NaN for a row that went to `dead_letters`.

        `coverage` is one of those that the regressor was made with; None is the first of them.
        """
        at = level_of(list(NUMBERS.only(self.base.clf).coverage_), coverage)
        one, keys, X = self.base.several(keys, X)
        out = np.full((len(keys), 2), np.nan)
        for part in self.predictions(keys, X, dead_letters=dead_letters):
            out[part.places] = part.P[:, :1] + part.P[:, [1 + at]] * [-1, 1]
        return np.asarray(out[0] if one else out)

    def predict_proba(self, keys: Any, X: Any, *, dead_letters: Letters = None) -> Array:
        """A probability a class of `classes_`; a row of NaN for one that went to `dead_letters`."""
        one, keys, X = self.base.several(keys, X)
        parts = self.probabilities(keys, X, dead_letters=dead_letters)
        column = {label: k for k, label in enumerate(self.classes_.tolist())}
        out = np.full((len(keys), len(column)), np.nan)
        for part in parts:
            out[part.places] = 0.0
            out[np.ix_(part.places, [column[label] for label in part.classes.tolist()])] = part.P
        return np.asarray(out[0] if one else out)

    def learn(
        self,
        keys: Any,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        id: str | None = None,
        mark: Any = None,
        dead_letters: Letters = None,
    ) -> Self:
        """Labelled rows, each for its key, in order; on disk when it returns. A label may be None.

        Of one row `y` is the label itself.

        `id` names the batch: one that was learned lately is not learned again. `mark` says how far an input was read
        (anything that JSON can write). Both are on disk with the rows or not at all.
        """
        self._learned(keys, X, y, sample_weight, id, mark, dead_letters)
        return self

    def predict_then_learn(
        self,
        keys: Any,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        id: str | None = None,
        mark: Any = None,
        dead_letters: Letters = None,
    ) -> Any:
        """The prediction made for each row before its label was learned; None if the batch `id` was learned before.

        Otherwise as `learn`.
        """
        one, n, predicted = self._learned(keys, X, y, sample_weight, id, mark, dead_letters)
        if predicted is None:
            return None
        said = self._labels(n, predicted)
        return plain(said[0]) if one else said

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
        CLASSES.only(self.base.clf)  # refused of numbers
        new = list(
            self._holder.new_classes
        )  # at once: nobody waits here for a batch that is being learned
        return (
            np.array([*self.base.classes.tolist(), *new], dtype=object)
            if new
            else self.base.classes
        )

    # -- keys ---------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Key) -> Target:
        """The estimator of one key."""
        return TARGETS[self.base.task.name](self, checked_key(key))

    def __contains__(self, key: object) -> bool:
        with self._open():
            key = checked_key(key)
            return (key in self._holder.held and bool(self._holder.held[key].rows)) or bool(
                self._store.parts(key)
            )

    def keys(self) -> list[Key]:
        """All keys that have learned something, in no order."""
        with self._open():
            self.flush()
            return list(self._store.keys())

    def model(self, key: Key) -> Model:
        """A model of one's own that knows what the key knows; what it learns from then on is not the key's."""
        with self._open():
            base, state = self._holder.state(checked_key(key))
            return base.model(state, f"key {key!r}")

    def to_bytes(self, key: Key) -> bytes:
        """The state of a key, as `Base.member` and `put` take it."""
        with self._open():
            base, state = self._holder.state(checked_key(key))
            return state.to_bytes(base.owner)

    def put(self, key: Key, state: bytes) -> None:
        """A key with this state, in place of what it had."""
        base = self._holder.root_of(state).base
        member = base.member(state, f"key {key!r}")  # whatever is wrong with it is an error here
        own = KeyState.from_bytes(state, base.owner, f"key {key!r}")
        if self.sources_kept and own.snapshot:
            raise InputError(
                f"key {key!r}: its state is a snapshot, and a fleet that consolidates needs the rows of its keys; "
                "learn them, or put it into a fleet that keeps no sources"
            )
        own = own if self.sources_kept else member.state()
        self._replace(key, own.to_bytes(base.owner) if own.snapshot or len(own) else b"", len(own))

    def forget(self, *keys: Key) -> Forgotten:
        """All that keys have learned is gone, with their events: overwritten in the file, the journal of it too.

        Bases that they have taught are fitted again without them before anything else. While a reader is open, older
        pages stay in the log: see `Forgotten.pending`.
        """
        with self._open():
            self._leave_bases({checked_key(key) for key in keys})
            forgotten = Forgotten([key for key in keys if self._replace(key, None)])
            forgotten.pending = self._store.erasing and not self._store.erase()
        return forgotten

    def _replace(self, key: Key, state: bytes | None, rows: int = 0) -> bool:
        """A key with this state of so many rows, or none; whether there was one, or an event."""
        key = checked_key(key)
        store = self._store
        with self._open(), uninterrupted():
            self._holder.write(list(self._holder.dirty))
            unreadable = {other: first for other, first in self._unreadable.items() if other != key}
            with store.transaction():
                store.forgetting()
                self._trim(unreadable)  # recovery must not bring it back from the journal
                there = store.forget(key)
                if state is None:
                    there += store.delete_events("key = ?", (key,))
                elif state:
                    store.put([(key, store.last, rows, state)])
            self._unreadable = unreadable
            self._holder.drop(key)
            return there > 0

    # -- keys that teach keys -----------------------------------------------------------------------------------

    def consolidate(self) -> int:
        """Fit a new base on the sources and what keys have learned, from which keys that come now start.

        Keys stay with the base that they started from, and keys that the sources do not help are left out (`teaching`).
        It returns the number of bases that keys have taught; it is the same if nobody else could have joined. Others
        may use the fleet meanwhile.
        """
        if not self.sources_kept:
            raise InputError(NO_SOURCES)
        with self._teaching:
            while True:
                with self._open():
                    self._holder.write(list(self._holder.dirty))
                    erased = self._erased
                    arrived = self._holder.arrived
                    keys = list(self._store.keys())
                    states = self._states_of(chosen(keys))
                states = admitted(self._first, states)
                rows = [[key, len(state)] for key, state in states.items()]
                same = rows == (self._taught[-1].rows if self._taught else [])
                made = None if same else self._fitted(states)
                with self._open(), uninterrupted():
                    if erased != self._erased:
                        continue  # what was forgotten meanwhile must not teach
                    if made is not None:
                        number = len(self._taught) + 1
                        made.name = hashlib.sha256(b"%b %d" % (made.digest, number)).digest()[:16]
                        new = Taught(made.name.hex(), made.digest.hex(), len(keys), rows)
                        self._use(made, [*self._taught, new])
                    self._holder.arrived -= arrived
                    return len(self._taught)

    def _consolidate_if_due(self) -> None:
        """Begin to fit a base if enough keys are new: as many as was said, and an eighth of those before."""
        known = self._taught[-1].keys if self._taught else 0
        due = self._every and self._holder.arrived >= max(self._every, known // SHARE)
        if due and not self._teaching.locked():
            threading.Thread(target=self._consolidate_aside, name="hedgerow-teaching").start()

    def _consolidate_aside(self) -> None:
        try:
            self.consolidate()
        except Exception:
            if not self._closed:
                logger.exception("%s: no base was fitted; keys start as before", self.folder)
                self._holder.arrived = 0

    def _states_of(self, keys: Iterable[Key]) -> dict[Key, KeyState]:
        """What keys have learned, as the file has it; without those whose state cannot be read."""
        states: dict[Key, KeyState] = {}
        for key in keys:
            with suppress(InputError):
                states[key] = self._holder.stored_state(key)[1]
        return states

    def _fitted(self, states: Mapping[Key, KeyState]) -> Base:
        """A base of the sources and these keys."""
        place = self.folder / BASES / SOURCES
        return fit(self._first, Batch.from_bytes(read_file(place), str(place)), states)

    def _use(self, base: Base, taught: list[Taught]) -> None:
        """A base that is new, or takes the place of another, as these say: durable before it is used."""
        file = self.folder / BASES / f"{base.digest.hex()}.safetensors"
        write_whole(file, base.to_bytes(), JournalError)
        self._holder.write(list(self._holder.dirty))  # what has begun stays with the base before
        with self._store.transaction():
            self._store.set_meta("bases", taught)
        self._taught = taught
        self._holder.add(base)
        self._remove_bases()

    def _leave_bases(self, keys: set[Key]) -> None:
        """Fit bases that have rows of these keys again without them; the keys that started there go through theirs."""
        self._erased += 1
        for number, old in enumerate(self._taught):
            rows = [each for each in old.rows if each[0] not in keys]
            if rows == old.rows:
                continue
            states = self._states_of(key for key, _ in rows)
            made = self._fitted(
                {key: states[key].some(slice(count)) for key, count in rows if key in states}
            )
            made.name = bytes.fromhex(old.name)
            new = old._replace(digest=made.digest.hex(), rows=rows)
            with uninterrupted():
                self._use(made, [*self._taught[:number], new, *self._taught[number + 1 :]])

    def _read_base(self, taught: Taught) -> Base:
        place = self.folder / BASES / taught.file
        base = Base(load_model(place), bytes.fromhex(taught.name))
        if base.digest.hex() != taught.digest:
            raise JournalError(
                f"{place} is not the base that keys belong to; restore the folder from a copy"
            )
        return base

    def _remove_bases(self) -> None:
        """Remove files of bases that are no longer used, or were never."""
        used = {SOURCES, *(each.file for each in self._taught)}
        for file in (self.folder / BASES).glob("*"):
            if file.name not in used:
                file.unlink()

    # -- batches ------------------------------------------------------------------------------------------------

    def probabilities(
        self, keys: Any, X: Any, *, dead_letters: Letters = None
    ) -> list[Predictions]:
        """Probabilities of some rows after the other, a column a class that their keys know."""
        CLASSES.only(self.base.clf)
        return self.predictions(keys, X, dead_letters=dead_letters)

    def predictions(self, keys: Any, X: Any, *, dead_letters: Letters = None) -> list[Predictions]:
        """Probabilities, or numbers and their intervals, of some rows after the other."""
        _, keys, X = self.base.several(keys, X)
        with self._open():
            batch, places = checked(self.base.clf, keys, X, None, None, dead_letters)
            predicted, bad = self._holder.run(batch)
            _refuse(batch, places, bad, dead_letters)
            return _at(places, predicted)

    def _learned(
        self,
        keys: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        id: str | None,
        mark: Any,
        letters: Letters,
    ) -> tuple[bool, int, list[Predictions] | None]:
        """Whether it was one row, how many rows were given, and what was predicted (None: it was learned before)."""
        one, keys, X = self.base.several(keys, X)
        if one:
            y = [y]
            sample_weight = None if sample_weight is None else [sample_weight]
        if y is None:
            raise InputError("learn needs a label for each row (None for one without)")
        with self._open():
            learned = [] if id is None else self._store.meta("batches") or []
            if id in learned:
                return one, len(keys), None
            batch, places = checked(self.base.clf, keys, X, y, sample_weight, letters)
            if bad := self._cannot_learn(batch):  # said before anything changes
                _refuse(batch, places, bad, letters)
                rows = [i for i, key in enumerate(batch.keys) if key not in bad]
                batch = batch.some(rows)
                places = [places[i] for i in rows]
            batch = replace(batch, labels=self.base.task.kept(batch.labels))
            meta = {} if mark is None else {"mark": mark}
            if id is not None:
                meta["batches"] = [*learned[1 - REMEMBERED :], check_id(id)]
            return one, len(keys), _at(places, self._commit(batch, meta))

    # -- events -------------------------------------------------------------------------------------------------

    def _ask(self, keys: Any, X: Any, ids: Any, letters: Letters) -> list[Answer | None]:
        """Predictions under ids: those that were there, and new ones, which are kept before they are answered."""
        if isinstance(ids, str) or not hasattr(ids, "__len__") or len(ids) != len(keys):
            raise InputError(f"ids={ids!r} for {len(keys)} keys; give a list, one a row")
        base = self.base
        events: dict[int, KeyEvent] = {}  # by their places
        answers: list[Answer | None] = [None] * len(ids)
        with self._open():
            batch, places = checked(base.clf, keys, X, None, None, letters)
            ledgers = {key: KeyLedger(self._store, key, base.task) for key in batch.by_key}
            named: dict[tuple[Key, str], int] = {}
            new: list[int] = []
            for i, (key, x) in enumerate(zip(batch.keys, batch.X, strict=True)):
                try:
                    id = check_id(ids[places[i]])
                    if named.setdefault((key, id), i) != i:
                        raise InputError(f"id {id!r} occurs twice; give each an id of its own")
                    known: Any = ledgers[key].predicted(id, digest_of(x.tobytes()))
                except InputError as error:
                    if letters is None:
                        raise InputError(f"key {key!r}: {error}") from None
                    letters.append(DeadLetter(places[i], key, str(error)))
                    continue
                if known is None:
                    new.append(i)
                else:
                    events[i] = known
            some = batch.some(new)
            predicted, bad = self._holder.run(some)
            _refuse(some, [places[i] for i in new], bad, letters)
            before = set(events)
            for part in predicted:
                classes = label_to_json(tuple(part.classes[len(base.classes) :].tolist()))
                codes = base.task.noted(part.P)[0].tolist()
                for row, P, code in zip(part.places, part.P, codes, strict=True):
                    x = some.X[row].tobytes()
                    events[new[row]] = KeyEvent(
                        0, ids[places[new[row]]], self._clock.now(), code, float(P[code]), digest_of(x), x,
                        probabilities=P, key=some.keys[row], classes=classes,
                    )  # fmt: skip
            asked = [events[i] for i in sorted(set(events) - before)]
            self._commit(batch.some([]), asked=asked)
        for i, event in events.items():
            P = np.asarray(event.probabilities).tolist()
            about = (event.number, event.code, P, self._scale(event), None, None, i in before)
            answers[places[i]] = base.task.answer(str(event.id), *about)
        return answers

    def _scale(self, event: KeyEvent) -> list[Any]:
        """The classes that an event's key knew, by code, or the coverages."""
        return [*self.base.task.scale(self.base.clf), *label_of_json(event.classes)]

    def _judge(
        self, key: Key, labels: Sequence[tuple[str, Any]], labelled: list[KeyEvent]
    ) -> list[LabelResult]:
        """What becomes of labels of a key; events whose labels are to be learned join `labelled`."""
        taken: list[Any] = []

        def learn(events: list[Any], values: list[Any]) -> list[bool]:
            given = objects([*taken, *values])
            X = np.empty((len(given), 0))
            if bad := self._cannot_learn(Batch.of([key] * len(given), X, given)):
                raise bad[key]
            taken.extend(values)
            labelled.extend(events)
            right = []
            for event, value in zip(events, values, strict=True):
                event.label = label_to_json(value)
                said = (value, event.code, event.probabilities, self._scale(event))
                right.append(self.base.task.is_right(*said))
            return right

        ledger = KeyLedger(self._store, key, self.base.task)
        return ledger.label_many(labels, learn, by_event=True)

    def _rows_of(self, events: Sequence[KeyEvent]) -> Batch:
        """The rows of events with their labels; None for one that has expired."""
        task = self.base.task
        X = np.frombuffer(b"".join(event.row for event in events))
        labels = objects([label_of_json(str(event.label)) for event in events])
        keys = [event.key for event in events]
        return Batch.of(keys, X.reshape(len(keys), self.base.n_features), task.kept(labels))

    def _cannot_learn(self, batch: Batch) -> dict[Key, InputError]:
        """The keys whose state cannot be read or whose labels cannot be learned, with the reason."""
        bad: dict[Key, InputError] = {}
        task = self.base.task
        doubtful = {batch.keys[i] for i in task.doubtful(self.base.clf, batch.labels).tolist()}
        for key, rows in batch.by_key.items():
            try:
                if key not in self._holder.held:
                    self._holder.stored_state(key)
            except InputError as error:
                bad[key] = error
                continue
            try:
                if key in doubtful:
                    task.check(self._holder.model(key), batch.labels[rows])
            except InputError as error:
                bad[key] = InputError(f"key {key!r}: {error}")
        return bad

    def _labels(self, n: int, predicted: list[Predictions]) -> Array:
        task = self.base.task
        labels = task.empty(n)
        for part in predicted:
            labels[part.places] = part.labels
        return task.together(labels, self.base.classes)

    def flush(self) -> None:
        """Write what all keys have learned to their states.

        The journal keeps what keys have learned whose state cannot be read (`stats()["unreadable"]`).
        """
        with self._open(), uninterrupted():
            self._holder.write(list(self._holder.dirty))
            if self._store.journal_bytes:
                with self._store.transaction():
                    self._trim(self._unreadable)

    def backup(self, folder: str | os.PathLike[str]) -> None:
        """A copy of everything as it is now, in a new folder that can be opened like this one."""
        with self._open():
            copy_folder(self.folder, Path(folder), FleetStore)

    def stats(self) -> dict[str, Any]:
        """Keys and bytes, in memory and on disk. It does not wait for a batch that is being learned."""
        self._check_open()
        holder = self._holder
        store = self._store
        held = list(self._holder.held.values())
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
            "pending": store.waiting,
            "unreadable": len(self._unreadable),
            "bases": len(self._taught),
            "journal_bytes": store.journal_bytes,
            "file_bytes": store.bytes,
        }

    # -- the end ------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether it was closed, or closed itself since its memory was behind its file."""
        return self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the fleet in {self.folder} was closed; Fleet.open goes on with it")

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Alone, with a fleet that is open."""
        with self._lock:
            self._check_open()
            yield

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
        with ExitStack() as last:
            if self._temporary:
                last.callback(shutil.rmtree, self.folder, ignore_errors=True)
            last.callback(self._owner.release)
            last.callback(self._store.close)
            self._holder.close()

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
