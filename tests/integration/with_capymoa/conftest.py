"""CapyMOA wants an older pandas than the other tests: `make test-capymoa` runs these in an environment of their own."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("jpype") else ["test_*.py"]
