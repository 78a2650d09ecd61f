"""Our own learner: ridge regressions with a source prior in several spaces, mixed with a guarantee."""
