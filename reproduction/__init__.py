"""The paper's experiments, run again, and studies of streams as they are: a program beside the library.

    python -m reproduction                  the paper's tables and figures, published numbers beside ours
    python -m reproduction report FOLDER    the report on results that are there
    python -m reproduction study NAME       labels late or missing, new classes, drift, imbalance, bad sources
    python -m reproduction book             full reports in out/book, and the measured tables of docs

stream      predict, then learn: labels at once, late, in batches or never
tasks       a task of an experiment, and scenarios that change it
fitting     the classifier that a task gives; alignments are solved once a process
runs        the rows of a folder as a frame, and the cells of tables
paper, theory, study, book    the experiments and their pages
"""
