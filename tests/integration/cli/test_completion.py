"""Completion as people use it: installed by the command, then Tab in a real shell."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.command import environment

BIN = Path(sys.executable).parent


def shell(name, home):
    """A shell with completion installed by the command itself, in a home of its own."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed: apt-get install {name}")
    if not (BIN / "hedgerow").exists():
        pytest.skip("the command is not installed: pip install -e .")
    env = environment(
        HOME=str(home), ZDOTDIR=str(home), PATH=f"{BIN}:{os.environ['PATH']}", TERM="dumb", PS1="> "
    )
    (home / ".zshrc").write_text(
        "autoload -Uz compinit\ncompinit\n"
    )  # as those who use zsh have it
    done = subprocess.run(
        [path, "-c", "hedgerow --install-completion; true"],
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
    )
    assert "Completion script installed" in done.stdout, done.stdout + done.stderr
    return path, env


def typed(command, env, keys, wanted, seconds=30):
    """What a terminal shows after these keys, until what is wanted is there."""
    child, master = pty.fork()
    if child == 0:
        os.execve(command[0], command, env)
    shown = ""
    end = time.monotonic() + seconds
    again = 0.0
    try:
        while time.monotonic() < end and wanted not in shown:
            if not again and shown.removesuffix("\x1b[?2004h").endswith(("> ", "# ", "$ ", "% ")):
                os.write(master, keys.encode())
                again = time.monotonic() + 3
            elif (
                again and time.monotonic() > again
            ):  # the first Tab of a zsh only loads what completes
                os.write(master, b"\t")
                again = time.monotonic() + 3
            if select.select([master], [], [], 0.2)[0]:
                shown += os.read(master, 4096).decode(errors="replace")
    finally:
        os.close(master)
        os.kill(child, 9)
        os.waitpid(child, 0)
    return shown


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [("hedgerow doc\t", "hedgerow doctor"), ("hedgerow fit --method oddm-\t", "oddm-fixed")],
)
@pytest.mark.parametrize("name", ["bash", pytest.param("zsh", marks=pytest.mark.slow)])
def test_tab_completes_commands_and_values(name, keys, wanted, tmp_path):
    path, env = shell(name, tmp_path)
    options = ["-i"] if name == "bash" else ["-i", "-o", "no_prompt_sp"]
    shown = typed([path, *options], env, keys, wanted)
    assert wanted in shown, shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("hedgerow doc", {"doctor"}),
        ("hedgerow fit --reading ta", {"table", "table-baselines"}),
        ("hedgerow fit --method homotl-", {"homotl-1", "homotl-2"}),
        ("hedgerow compare --methods pa,homotl-", {"pa,homotl-1", "pa,homotl-2"}),
    ],
)
def test_fish_offers_the_same(line, wanted, tmp_path):
    path, env = shell("fish", tmp_path)
    done = subprocess.run(
        [path, "-c", f'complete -C "{line}"'],
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
        cwd=tmp_path,
    )
    assert {text.split("\t")[0] for text in done.stdout.splitlines()} == wanted, done.stderr


@pytest.mark.slow
def test_a_path_is_completed_as_the_shell_does(tmp_path):
    path, env = shell("bash", tmp_path)
    (tmp_path / "site-a.csv").write_text("a\n")
    shown = typed(
        [path, "-i"], env, f"cd {tmp_path}; hedgerow fit --source {tmp_path}/site-\t", "site-a.csv"
    )
    assert "site-a.csv" in shown, shown
