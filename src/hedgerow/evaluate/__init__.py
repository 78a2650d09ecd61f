"""Evaluation: a generator runs the stream, folds turn it into numbers, plots and a report show them.

prequential   predict, then learn, chunk by chunk: the one loop
trials        methods x orders of a task, in parallel, one row of plain values a finished run
folds         rows to means, spreads and curves
stats         are methods different: paired tests within a task, rank tests over tasks
plots         curves to figures
report        tables and figures to one self-contained page
"""
