"""Experiments: the paper's, studies of streams as they are, comparisons on one's own data, the demonstration.

tasks       one task: sources, unlabelled rows, what streams; the classifier that it gives
stream      predict, then learn: labels at once, late, in batches or never
runner      units of work in parallel, resumable, every finished run a row on disk
rows        these rows as a pandas frame, and the cells of tables
stats       paired tests within a task, rank tests over tasks
figures     figures in one style
report      tables, figures and text as a page, as Markdown and as files
scenarios   what can be wrong with a stream, as changes of a task
study, compare, paper (and paper_report, theory), demo     the four experiments; peers: learners of other packages
"""

# what the help of the command line names; here, so that it need not import an experiment

# the data sets of a study, and the target of each where none is named
TARGETS = {"digits": "shifted", "office-caltech": "webcam", "pie": "PIE5", "amazon-reviews": "kitchen"}

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
