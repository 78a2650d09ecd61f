"""Methods side by side on your own data: `hedgerow compare`, and `hedgerow.compare` in Python.

options       what can be asked, and what is taken where nothing is said
inputs        files, tables and arrays to sources, unlabelled rows and a stream
stored_task   these as a file in the run's folder: every worker reads the same rows
run           one unit (a method, perhaps without a source), order by order, one row of plain values a finished order
measures      what a row says about its predictions: mistakes, calibration, confusion
peers         learners of scikit-learn and river that people would use instead
runs          rows to cells, leader, significance, what each source was worth
tables        rows to tables
figures       rows to figures
verdict       rows to the paragraph that the report begins with
report        the page
command       what `hedgerow compare` does
door          `hedgerow.compare` and what it returns
"""
