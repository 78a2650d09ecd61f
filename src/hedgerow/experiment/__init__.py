"""Experiments: what the paper's reproduction, the studies, comparisons and the demonstration share.

preparation       a domain as the target, the others as sources: one split, and the orders of its stream
prequential       predict, then learn: the one loop over a stream
trials            methods x orders of one task, in parallel, in memory
engine            units of work in parallel, resumable, every finished run a row on disk
engines           where they are worked on: processes, or a Dask cluster
plugins           files of users that register methods
results           the file of these rows
alignment_cache   alignments are costly: each is solved once and kept
classifiers       the one place where experiments make a classifier
rows              what every row says about a finished run
environment       versions, machine and time
summaries         rows to means and spreads
words             sentences and counts, for the paragraph that begins a report
tables            a table as HTML, CSV, Markdown and LaTeX
page              one self-contained page
writer            tables and figures as parts of a page and as files
command           what `hedgerow paper`, `hedgerow study` and `hedgerow compare` have in common
"""
