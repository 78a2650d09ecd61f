"""The processes of a job: its driver, the Java machine, the Python workers."""

from __future__ import annotations

import os
from pathlib import Path


def tree(root):
    """(pid, parent, command line) of all below a process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text()
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        found[int(path.name)] = (int(stat.rpartition(")")[2].split()[1]), command)
    below, more = {root}, True
    while more:
        more = {pid for pid, (parent, _) in found.items() if parent in below} - below
        below |= more
    return [(pid, *found[pid]) for pid in below if pid in found]


def workers(root):
    """Python workers, not the daemon that forks them."""
    all_of = {pid: (parent, command) for pid, parent, command in tree(root)}
    daemons = {pid for pid, (_, command) in all_of.items() if "pyspark.daemon" in command}
    return [pid for pid in daemons if all_of[pid][0] in daemons]


def java(root):
    return [pid for pid, _, command in tree(root) if "org.apache.spark.deploy.SparkSubmit" in command]


def cpu(pid):
    """Seconds of processor time of a process and of its children that ended."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(part) for part in parts[11:15]) / os.sysconf("SC_CLK_TCK")


def cpu_of_tree():
    """Of this process's own tree: {java, python workers, driver}."""
    me = os.getpid()
    return {
        "java": sum(cpu(pid) for pid in java(me)),
        "python workers": sum(cpu(pid) for pid, _, command in tree(me) if "pyspark.daemon" in command),
        "driver": cpu(me),
    }
