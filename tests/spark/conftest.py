"""A real Spark on this machine."""

from __future__ import annotations

import os
import shutil
import signal

import numpy as np
import pytest

from hedgerow import Domain
from hedgerow.fleet import Base

NO_JAVA = "no Java: apt-get install openjdk-17-jre-headless"


@pytest.fixture(scope="session")
def base():
    """Two sources of four features whose values single precision holds; classes are text."""
    rng = np.random.default_rng(0)
    domains = []
    for name, shift in (("a", 0.0), ("b", 0.5)):
        X = rng.normal(size=(60, 4)).astype(np.float32).astype(np.float64)
        domains.append(Domain(name, X + shift, np.where(X[:, 0] > 0, "up", "down")))
    return Base.fit(domains, "hedgerow-linear")


@pytest.fixture(scope="module")
def spark():
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip(NO_JAVA)
    from hedgerow.spark import session

    quiet = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    before = signal.getsignal(signal.SIGINT)
    made = session("local[2]", config={**quiet, "spark.driver.host": "127.0.0.1"})
    yield made
    made.stop()
    signal.signal(signal.SIGINT, before)  # Spark takes Ctrl-C for itself and does not give it back
