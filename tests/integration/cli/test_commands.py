from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.command import COMMAND, environment

from hedgerow import OnlineTransferClassifier


def test_help_names_the_commands(hedgerow):
    done = hedgerow("--help")
    assert done.returncode == 0
    for command in ("demo", "methods", "data", "fit", "run"):
        assert command in done.stdout


def test_help_of_warm(hedgerow):
    assert "Compile the kernels into the cache" in hedgerow("warm --help").stdout


def test_the_command_line_imports_no_numbers():
    code = (
        "import sys, hedgerow.cli.app\n"
        "print([m for m in ('numpy', 'scipy', 'sklearn', 'matplotlib') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_without_its_packages_the_remedy_is_given():
    code = "import sys; sys.modules['cyclopts'] = None; from hedgerow.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'hedgerow[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_version_methods_and_data(hedgerow, tmp_path):
    assert hedgerow("--version").stdout.startswith("hedgerow ")
    assert "oddm-fixed" in hedgerow("methods").stdout
    assert "refresh_every" in hedgerow("methods --readings").stdout
    listed = hedgerow("data --data-dir", tmp_path)
    assert listed.returncode == 0
    assert "embedded" in listed.stdout


def test_fit_says_what_it_found_and_keeps_names(files, hedgerow, tmp_path):
    path = tmp_path / "m.safetensors"
    done = hedgerow(
        "fit --source",
        files / "shop.csv",
        "--source",
        files / "web.csv",
        "--label kind --unlabelled",
        files / "new.csv",
        "--method homotlms -o",
        path,
    )
    assert done.returncode == 0, done.stderr
    for word in (
        "shop",
        "web",
        "unlabelled target",
        "discrepancy",
        "5 features",
        "3 classes",
        str(path),
    ):
        assert word in done.stdout
    clf = OnlineTransferClassifier.load(path)
    assert list(clf.feature_names_in_) == ["width", "height", "weight", "age", "price"]
    assert clf.source_names_ == ["shop", "web"]


@pytest.mark.parametrize("options", [["--method", "oddm"], []])
def test_fit_shows_how_far_each_source_is_from_the_target(files, hedgerow, tmp_path, options):
    model = tmp_path / "m.safetensors"
    fit = ("fit --source", files / "shop.csv", "--label kind -o", model, *options)
    done = hedgerow(*fit, "--unlabelled", files / "new.csv")
    assert done.returncode == 0, done.stderr
    header, source, *_ = done.stdout.splitlines()
    assert "discrepancy" in header
    (distance,) = OnlineTransferClassifier.load(model).discrepancy_.values()
    assert source.split()[-1] == f"{distance:.3g}"
    assert "discrepancy: squared gaps between the means" in done.stdout
    alone = hedgerow(*fit).stdout
    assert "discrepancy" not in alone
    assert "no target rows: alignment skipped" in alone


def test_columns_in_another_order_are_the_same_columns(files, hedgerow, tmp_path):
    from hedgerow.core.domains import same_columns
    from hedgerow.data import read

    shop, web = same_columns(
        [read(files / "shop.csv", label="kind"), read(files / "web.csv", label="kind")]
    )
    assert list(web.feature_names or ()) == list(shop.feature_names or ())
    assert abs(float(np.asarray(web.X)[:, 0].mean()) - 0.5) < 0.3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "odm"], "did you mean 'oddm'"),
        (["--option", "dime=3"], "did you mean 'dim'"),
        (["--option", "dim"], "key=value"),
        (["--label", "knd"], "did you mean 'kind'"),
        (["--source", "absent.csv"], "no such file"),
        (["-o", "nowhere/at/all.safetensors"], "does not exist"),
    ],
)
def test_fit_refuses_in_one_line(files, hedgerow, tmp_path, arguments, words):
    done = hedgerow(
        "fit --source",
        files / "shop.csv",
        "--label kind -o",
        tmp_path / "m.safetensors",
        *arguments,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "m.safetensors").exists()


def test_fit_names_a_column_that_only_one_file_has(files, hedgerow, tmp_path):
    (tmp_path / "odd.csv").write_text(
        "width,height,weight,age,depth,kind\n1,2,3,4,5,mug\n2,3,4,5,6,pan\n"
    )
    done = hedgerow(
        "fit --source",
        files / "shop.csv",
        "--source",
        tmp_path / "odd.csv",
        "--label kind -o",
        tmp_path / "m.safetensors",
    )
    assert done.returncode == 0, done.stderr
    assert "not in odd: price" in done.stdout
    assert "not in shop: depth" in done.stdout


CLEAR = "a\x1b[2J"  # would empty the screen


def test_control_characters_of_the_data_do_not_reach_the_terminal(hedgerow, tmp_path):
    rows = "".join(f"{i},{i * i % 7},{['b', CLEAR][i % 2]}\n" for i in range(20))
    (tmp_path / "odd.csv").write_text(f"x\x1b[31m,y,kind\n{rows}")
    model = tmp_path / "m.safetensors"
    fitted = hedgerow("fit --source", tmp_path / "odd.csv", "--label kind -o", model)
    shown = hedgerow("inspect", model)
    refused = hedgerow("fit --source", tmp_path / "odd.csv", "--label k[31mind -o", model)
    assert (fitted.returncode, shown.returncode, refused.returncode) == (0, 0, 2)
    for done in (fitted, shown, refused):
        assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b[2J" in shown.stdout


def test_a_full_disk_is_one_line(model):
    with open("/dev/full", "w") as full:
        command = [*COMMAND, "inspect", str(model)]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment()
        )
    assert (done.returncode, done.stderr) == (
        1,
        "error: the system refused: No space left on device\n",
    )


def test_demo_in_a_pipe_is_plain_and_ends_with_the_report(hedgerow, tmp_path):
    done = hedgerow("demo --out", tmp_path / "d", "--orders", 2, "--jobs", 1, "--target thin")
    assert done.returncode == 0, done.stderr
    report = Path(done.stdout.splitlines()[-1])
    assert report == (tmp_path / "d" / "our-input" / "report.html").resolve()
    assert "\x1b" not in done.stdout + done.stderr
    assert "\r" not in done.stdout + done.stderr
    page = report.read_text(encoding="utf-8")
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<script" not in page
    for setting in ("as-published", "our-input"):
        folder = tmp_path / "d" / setting
        names = {path.stem for path in (folder / "figures").glob("*.svg")}
        assert names >= {
            "running-mistakes",
            "windowed-mistakes",
            "reliability",
        }
        assert (folder / "report.html").read_text(encoding="utf-8").count(
            "data:image/svg+xml;base64,"
        ) >= len(names)
        for path in (*(folder / "figures").glob("*.png"), folder / "results.jsonl"):
            assert path.stat().st_size > 1000
    assert hedgerow("demo --target sideways").returncode == 2


def test_progress_in_a_pipe_starts_at_nothing_done(monkeypatch, capsys):
    from hedgerow.cli import terminal

    monkeypatch.setattr(terminal, "PLAIN_EVERY", 0.0)
    with terminal.progress() as tell:
        tell(0, 10, "runs")
        tell(5, 10, "runs")
    assert capsys.readouterr().err.splitlines()[0] == "0/10 done after 0 s (runs)"
