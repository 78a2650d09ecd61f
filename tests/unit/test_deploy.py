"""What deploy/ names exists: metrics, options, paths; and its files can be read."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
pytest.importorskip("starlette")
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from hedgerow.cli.app import app, arguments_of  # noqa: E402
from hedgerow.live.report import RULES  # noqa: E402
from hedgerow.service.app import ENDING_SECONDS  # noqa: E402
from hedgerow.service.metrics import Requests, exposition  # noqa: E402

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SUFFIXES = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}


def text_of(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def expressions() -> list[str]:
    groups = yaml.safe_load(text_of("prometheus/alerts.yml"))["groups"]
    panels = json.loads(text_of("grafana/hedgerow.json"))["panels"]
    rules = [rule["expr"] for group in groups for rule in group["rules"]]
    return rules + [target["expr"] for panel in panels for target in panel["targets"]]


def served() -> set[str]:
    families = text_string_to_metric_families(exposition(Requests(), []).decode())
    return {
        family.name + suffix for family in families for suffix in SUFFIXES.get(family.type, [""])
    }


def test_every_metric_of_rules_and_dashboard_is_served():
    named = {
        name for text in expressions() for name in re.findall(r"\b(?:hedgerow|process)_\w+", text)
    }
    assert len(named) > 20
    assert named <= served()
    assert set(re.findall(r'rule="([\w-]+)"', text_of("prometheus/alerts_test.yml"))) <= set(RULES)


def test_every_alert_says_what_happened_and_what_to_do():
    for group in yaml.safe_load(text_of("prometheus/alerts.yml"))["groups"]:
        for rule in group["rules"]:
            assert set(rule["annotations"]) == {"summary", "action"}, rule["alert"]
            assert rule["labels"]["severity"] in ("page", "ticket")


def test_every_variable_is_an_option_of_the_service():
    options = [argument.name for argument in arguments_of("serve")]
    known = {
        f"HEDGEROW_SERVE_{name.removeprefix('--').replace('-', '_').upper()}" for name in options
    }
    named = {
        name
        for path in DEPLOY.rglob("*")
        if path.is_file() and path.name != "README.md"
        for name in re.findall(r"HEDGEROW_SERVE_\w+", path.read_text(encoding="utf-8"))
    }
    assert named
    assert named <= known
    assert set(tomllib.loads(text_of("hedgerow.toml"))) == {"serve"}
    app.parse_args(
        ["serve", "--config", str(DEPLOY / "hedgerow.toml")], exit_on_error=False, print_error=False
    )


def test_extras_that_files_name_are_there_and_the_image_exports_parquet():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    [image] = re.findall(r"ARG EXTRAS=(\S+)", text_of("Dockerfile"))
    [unit] = re.findall(r"'\.\[(\S+)\]'", text_of("hedgerow.service"))
    for named in (image, unit):
        assert {"cli", "live", "files"} <= set(named.split(",")) <= set(extras)


def test_files_that_files_name_are_there():
    compose = yaml.safe_load(text_of("compose.yaml"))
    mounts = [
        mount.split(":")[0] for each in compose["services"].values() for mount in each["volumes"]
    ]
    for name in (mount for mount in mounts if mount.startswith("./") and "secrets" not in mount):
        assert (DEPLOY / name).exists(), name
    assert {mount for mount in mounts if not mount.startswith(".")} == set(compose["volumes"])
    for line in text_of("Dockerfile").splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for name in line.split()[1:-1]:
                assert (ROOT / name).exists(), name
                assert (
                    f"!{name}" in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
                )


def test_a_folder_has_one_replica_and_time_to_end():
    (workload,) = [
        each
        for each in yaml.safe_load_all(text_of("kubernetes.yaml"))
        if each["kind"] == "StatefulSet"
    ]
    pod = workload["spec"]["template"]["spec"]
    assert workload["spec"]["replicas"] == 1
    (container,) = pod["containers"]
    given = {each["name"]: each["value"] for each in container["env"]}
    assert set(given) == {"HEDGEROW_SERVE_TOKEN_FILE"}
    assert pod["terminationGracePeriodSeconds"] >= 2 * ENDING_SECONDS
    probes = {
        container[name]["httpGet"]["path"]
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert probes == {"/healthz", "/readyz"}


@pytest.mark.parametrize(
    "check",
    [
        "check rules alerts.yml",
        "check config --syntax-only prometheus.yml",
        "test rules alerts_test.yml",
    ],
)
def test_prometheus_takes_the_rules(check):
    if shutil.which("promtool") is None:
        pytest.skip("no promtool: apt-get install prometheus")
    done = subprocess.run(
        ["promtool", *check.split()], cwd=DEPLOY / "prometheus", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_systemd_takes_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze, which Debian's package systemd has")
    unit = tmp_path / "hedgerow.service"  # the program is not installed where tests run
    unit.write_text(
        text_of("hedgerow.service").replace("/opt/hedgerow/bin/hedgerow", "/bin/true"),
        encoding="utf-8",
    )
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
