"""Streams as they are: labels late, missing or in batches, new classes, drift, imbalance, sources of every kind.

label_events  a stream as events, and adaptors that change when its labels arrive
scenarios     a stream task, and functions that change one into another; they compose
drift         a stream that switches between two domains
sources       sources that are few, useless or misleading
studies       the table: every study with its points and panels
run           one unit (study, target, method, point), order by order, one row of plain values a finished order
figures       rows to curves
report        rows to one page, with what they say in words
command       what `hedgerow study` does
"""
