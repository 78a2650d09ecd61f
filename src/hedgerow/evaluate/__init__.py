"""Evaluation: what finished runs say.

folds         rows to means, spreads and curves
stats         are methods different: paired tests within a task, rank tests over tasks
plots         curves to figures
separation    how far sources and target are apart, before and after alignment
"""
