"""Experiments: the paper's, studies of streams as they are, comparisons on one's own data, the demonstration.

stream      predict, then learn: labels at once, late, in batches or never
tasks       one task: sources, unlabelled rows, what streams; scenarios that change it; the classifier that it gives
runner      units of work in parallel, resumable, every finished run a row on disk
rows        these rows as a pandas frame, and the cells of tables
stats       paired tests within a task, rank tests over tasks
figures     figures in one style
report      tables, figures and text as a page, as Markdown and as files
study, compare, paper (and theory), demo     the four experiments; peers: learners of other packages
"""

# names for the help and the completion of the command line; here, so that it need not import an experiment

# the data sets of a study, and the target of each where none is named
TARGETS = {
    "digits": "shifted",
    "office-caltech": "webcam",
    "pie": "PIE5",
    "amazon-reviews": "kitchen",
    "office-googlenet": "webcam",
}

# the studies and their titles; hedgerow.lab.study has a function for each
STUDIES = {
    "delay": "Labels that come late",
    "missing": "Labels that never come",
    "batches": "Labels in batches",
    "late-classes": "Classes that appear late, or only in the target",
    "missing-classes": "Classes missing from some sources",
    "drift": "A target that changes",
    "imbalance": "Rare classes",
    "sources": "Sources of every kind",
}

# the parts of the paper's report, and the groups of runs that each one needs
PARTS = {
    "table": ("table",),
    "curves": ("table",),
    "discrepancy": ("table",),
    "stats": ("table",),
    "time": ("table",),
    "bound": ("table", "mixers"),
    "sensitivity-C": ("sensitivity-C",),
    "sensitivity-Tw": ("sensitivity-Tw",),
    "ablation": ("table", "ablation"),
    "refresh": ("refresh",),
    "inputs": ("table", "inputs"),
    "definitions": ("definitions",),
}
