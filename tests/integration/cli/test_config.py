"""Configuration: flags before variables before the file, and keys that are unknown are named with the nearest one."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from hedgerow.cli.app import app
from hedgerow.cli.config import read
from hedgerow.core.errors import InputError


@pytest.fixture
def served(monkeypatch):
    """The settings with which the service would be started."""
    found = []
    monkeypatch.setattr("hedgerow.service.app.serve", lambda folder, settings, **_: found.append((folder, settings)))
    return found


def call(*arguments, **variables):
    result = CliRunner().invoke(app, [*map(str, arguments)], env=variables)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def written(folder, text):
    file = folder / "hedgerow.toml"
    file.write_text(text)
    return file


def test_flags_are_stronger_than_variables_and_these_than_the_file(tmp_path, served):
    file = written(
        tmp_path, f'[serve]\nmodels = "{tmp_path}"\nport = 1\nmax-rows = 2\nmax_body = 3\nlabel_timeout = 9\n'
    )
    call("serve", "--config", file, "--port", 7, HEDGEROW_SERVE_PORT="8", HEDGEROW_SERVE_MAX_ROWS="9")
    [(folder, settings)] = served
    assert folder == tmp_path
    assert (settings.port, settings.max_rows, settings.max_body) == (7, 9, 3)
    assert settings.live.label_timeout == 9
    call("serve", HEDGEROW_CONFIG=str(file))
    assert served[1][1].port == 1


def test_run_takes_its_options_from_the_file_too(tmp_path):
    model, rows, out = tmp_path / "model.safetensors", tmp_path / "rows.csv", tmp_path / "out.jsonl"
    file = written(tmp_path, f'[run]\nmodel = "{model}"\ninput = "{rows}"\noutput = "{out}"\nnew-classes = "learn"\n')
    with pytest.raises(InputError, match=r"model\.safetensors"):  # which is not there; all options are
        call("run", "--config", file)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[serve]\nprot = 80\n", "unknown key 'prot'; did you mean 'port'"),
        ("[server]\nport = 80\n", "unknown table 'server'; did you mean 'serve'"),
        ("port = 80\n", "unknown table 'port'"),
        ("[serve]\nport = '80'\n", "port = '80': must be a whole number"),
        ("[serve]\nport = true\n", "must be a whole number"),
        ("[serve]\ndemo = 1\n", "must be true or false"),
        ("[run]\ninput = 7\n", "must be text"),
        ("[serve\n", "cannot read the configuration"),
    ],
)
def test_what_a_file_cannot_say(tmp_path, text, told):
    file = written(tmp_path, text)
    with pytest.raises(InputError, match=told):
        read(file)
    with pytest.raises(InputError, match=told):
        call("serve", "--demo", "--config", file)


def test_check(tmp_path):
    file = written(tmp_path, "[serve]\nport = 80\n[run]\nappend = true\n")
    text = call("config", "check", file, HEDGEROW_SERVE_MAX_ROWS="7", HEDGEROW_RUN_PROBA="true")
    assert [line.split(":")[0] for line in text.splitlines()] == [
        "serve max_rows", "serve port", "run append", "run proba",
    ]  # fmt: skip
    for name, value, told in (
        ("HEDGEROW_SERVE_MAXROWS", "7", "did you mean 'HEDGEROW_SERVE_MAX_ROWS'"),
        ("HEDGEROW_SERVE_MAX_ROWS", "many", "must be a whole number"),
        ("HEDGEROW_SERVE_MAX_ROWS", "0", "must be above 0"),
        ("HEDGEROW_RUN_PROBA", "perhaps", "must be true or false"),
        ("HEDGEROW_SERVE_HOST", "0.0.0.0", "token file"),
    ):
        with pytest.raises(InputError, match=told):
            call("config", "check", file, **{name: value})
