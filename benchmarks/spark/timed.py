"""The processor with clocks: time of the learner, of the rest of a turn, of building frames; bytes of states."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter

from hedgerow.fleet import Base, Member
from hedgerow.spark.processor import KeyedLearner

spent: Counter[str] = Counter()


def clocked(name, function):
    def inner(*arguments, **options):
        began = time.thread_time()
        try:
            return function(*arguments, **options)
        finally:
            spent[name] += time.thread_time() - began
            spent[name + ", calls"] += 1

    return inner


def install():
    """Clocks around the learner, once a process."""
    if not hasattr(Member, "_clocked"):
        Member._clocked = True
        for verb in ("predict_proba", "learn", "to_bytes"):
            setattr(Member, verb, clocked("learner", getattr(Member, verb)))
        Base.member = clocked("rebuilding", Base.member)


class Timed(KeyedLearner):
    folder = ""

    @staticmethod
    def into(folder):
        def make(shared):
            made = Timed(shared)
            made.folder = folder
            return made

        return make

    def init(self, handle):
        super().init(handle)
        install()
        spent.clear()
        state = self._state
        get, update = clocked("state", state.get), clocked("state", state.update)

        def counted_get():
            found = get()
            if found is not None:
                spent["bytes in"] += sum(map(len, found))
            return found

        def counted_update(value):
            spent["bytes out"] += sum(map(len, value))
            return update(value)

        state.get, state.update = counted_get, counted_update

    def handleInputRows(self, key, rows, timerValues):
        began = time.thread_time()
        for frame in super().handleInputRows(key, rows, timerValues):
            spent["handler"] += time.thread_time() - began
            yield frame
            began = time.thread_time()
        spent["handler"] += time.thread_time() - began
        spent["keys"] += 1

    def close(self):
        if spent["keys"]:
            path = f"{self.folder}/{os.getpid()}-{uuid.uuid4().hex}.json"
            with open(path, "w", encoding="utf-8") as file:
                json.dump(spent, file)
