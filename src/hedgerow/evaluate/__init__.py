"""Evaluation: what finished runs say.

folds         rows to means, spreads and curves
stats         are methods different: paired tests within a task, rank tests over tasks
mcnemar       two methods on the instances of one stream
calibration   whether probabilities mean what they say
plots         curves to figures
panels        what figures of several panels share
separation    how far sources and target are apart, before and after alignment
"""
