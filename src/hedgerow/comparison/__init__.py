"""Methods side by side on one's own data, and what every experiment is run and shown with.

tasks       one task: sources, unlabelled rows, what streams; made of files, tables and arrays
peers       learners of other packages
measure     what is measured along a stream: mistakes, calibration, intervals
runner      units of work in parallel, resumable
results     every finished run a row on disk
stats       paired tests within a task, rank tests over tasks
found       what the rows say: a comparison on one target, or over domains
parts       its tables and figures
words, tables, figures, page    how they are shown: a page, Markdown, files
compare     the functions that users call, and what `hedgerow compare` and `hedgerow demo` do

(The package is not called `compare`, because `hedgerow.compare` is the function.)
"""
