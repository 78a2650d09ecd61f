"""Configuration: flags before variables before the file, and keys that are unknown are named with the nearest one."""

from __future__ import annotations

import pytest
from cyclopts import CycloptsError

from hedgerow.cli.app import app
from hedgerow.core.errors import InputError


@pytest.fixture
def served(monkeypatch):
    """The settings with which the service would be started."""
    found = []
    monkeypatch.setattr("hedgerow.service.app.serve", lambda settings, **_: found.append(settings))
    return found


@pytest.fixture
def call(monkeypatch):
    """Call a command with variables of its own."""

    def call(*arguments, **variables):
        with monkeypatch.context() as context:
            for name, value in variables.items():
                context.setenv(name, value)
            return app([*map(str, arguments)], exit_on_error=False, print_error=False)

    return call


def written(folder, text):
    file = folder / "hedgerow.toml"
    file.write_text(text)
    return file


def test_flags_are_stronger_than_variables_and_these_than_the_file(tmp_path, served, call):
    file = written(
        tmp_path,
        f'[serve]\nmodels = "{tmp_path}"\nport = 1\nmax-rows = 2\nmax_body = 3\nlabel_timeout = 9\n',
    )
    call(
        "serve", "--config", file, "--port", 7, HEDGEROW_SERVE_PORT="8", HEDGEROW_SERVE_MAX_ROWS="9"
    )
    [settings] = served
    assert settings.models == tmp_path
    assert (settings.port, settings.max_rows, settings.max_body) == (7, 9, 3)
    assert settings.live.label_timeout == 9
    call("serve", HEDGEROW_CONFIG=str(file))
    assert served[1].port == 1


def test_run_takes_its_options_from_the_file_too(tmp_path, call):
    model = tmp_path / "model.safetensors"
    rows = tmp_path / "rows.csv"
    out = tmp_path / "out.jsonl"
    file = written(
        tmp_path,
        f'[run]\nmodel = "{model}"\ninput = "{rows}"\noutput = "{out}"\nnew-classes = "learn"\n',
    )
    with pytest.raises(
        InputError, match=r"model\.safetensors"
    ):  # which is not there; all options are
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
def test_what_a_file_cannot_say(tmp_path, call, text, told):
    file = written(tmp_path, text)
    command = "run" if text.startswith("[run") else "serve"
    with pytest.raises(InputError, match=told):
        call(command, "--config", file)


def test_lists_come_from_the_file_and_are_checked(tmp_path):
    """Every option of `run` can stand in the file, also one that may be repeated."""
    fits = written(tmp_path, "[run]\nsetting = ['max_pending=7']\n")
    with pytest.raises(InputError, match="no model file"):
        app(
            ["run", "--model", "m", "--input", "i", "--output", "o", "--config", str(fits)],
            exit_on_error=False,
            print_error=False,
        )


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("accept_loss=false", "accept_loss=false: must be True or False"),  # "false" would be true
        ("accept_los=True", "unknown setting 'accept_los'; did you mean 'accept_loss'"),
        ("max_pending=0", "max_pending=0"),
        ("max_pending=None", "max_pending=None"),
        ("label_timeout=soon", "label_timeout='soon'"),
        ("max_pending", "--setting 'max_pending': write key=value"),
    ],
)
def test_settings_that_cannot_be_used(call, setting, told):
    with pytest.raises(InputError, match=told):
        call("run", "--model", "m", "--input", "i", "--output", "o", "--setting", setting)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("HEDGEROW_SERVE_MAXROWS", "7", "did you mean 'HEDGEROW_SERVE_MAX_ROWS'"),
        ("HEDGEROW_SERVE_MAX_ROWS", "many", "from HEDGEROW_SERVE_MAX_ROWS: unable to convert"),
        ("HEDGEROW_SERVE_MAX_ROWS", "0", "must be above 0"),
        ("HEDGEROW_SERVE_DEMO", "perhaps", "from HEDGEROW_SERVE_DEMO: unable to convert"),
        ("HEDGEROW_SERVE_HOST", "0.0.0.0", "token file"),
        ("HEDGEROW_RUN_PROB", "true", "did you mean 'HEDGEROW_RUN_PROBA'"),
    ],
)
def test_variables_that_cannot_be_used(call, name, value, told):
    command = name.split("_")[1].lower()
    with pytest.raises((InputError, CycloptsError), match=told):
        call(command, **{name: value})
