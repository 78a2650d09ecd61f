"""What is released: archives that hold what they should, extras that bring what they need, one version everywhere."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import hedgerow

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "release"))
import check  # noqa: E402
import contents  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGE = Path(hedgerow.__file__).parent


def name_of(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


# -- conda -------------------------------------------------------------------------------------------------------


def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8"))
    names = [
        *PROJECT["dependencies"],
        *(PROJECT["optional-dependencies"][x] for x in ("cli", "lab")),
    ]
    wanted = {}
    for each in (x for some in names for x in ([some] if isinstance(some, str) else some)):
        requirement = Requirement(each)
        name = {"matplotlib": "matplotlib-base"}.get(requirement.name, requirement.name)
        wanted[name] = requirement.specifier
    run = dict(line.split(" ", 1) for line in recipe["requirements"]["run"])
    assert run.pop("python") == PROJECT["requires-python"]
    assert {name: SpecifierSet(text) for name, text in run.items()} == wanted
    assert recipe["package"]["version"] == hedgerow.__version__
    assert (ROOT / "conda" / recipe["source"]["path"]).resolve() == ROOT


# -- archives ---------------------------------------------------------------------------------------------------


def a_wheel() -> set[str]:
    info = f"hedgerow-{hedgerow.__version__}.dist-info"
    return (
        {name.removeprefix("src/") for name in contents.tree(ROOT / "src" / "hedgerow")}
        | {f"{info}/{name}" for name in contents.DIST_INFO}
        | {f"{info}/licenses/{name}" for name in contents.licences()}
    )


def test_a_whole_wheel_has_no_problem():
    assert contents.wheel_problems(a_wheel(), hedgerow.__version__) == []
    assert "hedgerow/py.typed" in a_wheel()
    assert "hedgerow/service/static/vendor/uPlot.iife.min.js" in a_wheel()


@pytest.mark.parametrize(
    "name", ["hedgerow/py.typed", "hedgerow/service/static/model.js", "hedgerow/cli/app.py"]
)
def test_a_file_that_was_left_out_is_named(name):
    assert any(
        name in problem
        for problem in contents.wheel_problems(a_wheel() - {name}, hedgerow.__version__)
    )


@pytest.mark.parametrize(
    "name", ["tests/test_x.py", "hedgerow/kernels/__pycache__/a.nbi", "hedgerow/notes.txt"]
)
def test_a_file_that_does_not_belong_there_is_named(name):
    found = contents.wheel_problems(a_wheel() | {name}, hedgerow.__version__)
    assert found == [f"the wheel has {name}, which does not belong there"]


def test_files_of_others_need_a_licence():
    stray = "hedgerow/service/static/vendor/other.js"
    found = contents.wheel_problems(a_wheel() | {stray}, hedgerow.__version__)
    assert any("no licence beside it" in problem and stray in problem for problem in found)


def test_a_new_name_at_the_top_must_be_decided_about():
    assert contents.unknown_at_the_top({"src/hedgerow/x.py", "README.md", ".ci/run"}) == []
    assert len(contents.unknown_at_the_top({"notes/a.txt"})) == 1


def test_the_version_is_one_everywhere():
    assert check.version_problems(hedgerow.__version__) == []
    assert len(check.version_problems("9.9.9")) == 4


def test_the_readme_renders_and_one_that_does_not_is_seen():
    assert check.readme_problems((ROOT / "README.md").read_text(encoding="utf-8")) == []
    assert check.readme_problems("## A\n\n    ## B\n\n```\nx\n") != []


def test_the_workflow_calls_targets_that_exist():
    workflow = ROOT / ".github" / "workflows" / "ci.yml"
    if not workflow.exists():
        pytest.skip("no part of the source archive")
    called = re.findall(r"run: make ([\w-]+)", workflow.read_text(encoding="utf-8"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"check", "demo", "test", "docs"} <= set(called)
    assert [target for target in called if f"\n{target}:" not in makefile] == []


# -- extras -----------------------------------------------------------------------------------------------------

CORE = {"numpy", "scipy", "scikit-learn", "numba", "safetensors"}
HEAVY = {"pandas", "matplotlib", "pyspark", "pyarrow", "fastapi", "river", "mlflow", "torch"}
OURS = {"hedgerow", "IPython"}  # the second is there where it is used: in a notebook
FOR_DEVELOPERS = {"bench", "dev", "all"}
THEIR_OWN = {"river": {"pandas"}, "mlflow": {"fastapi"}}  # they need it
CLUSTERS = {"spark"}  # large, and of use with a cluster alone
OTHER_TOOLS = {"river", "pipeline", "mlflow"}  # for those who use these already
EXTRAS = {
    extra: set(map(name_of, names))
    for extra, names in PROJECT["optional-dependencies"].items()
    if extra not in FOR_DEVELOPERS
}


def test_the_core_needs_five_packages():
    assert set(map(name_of, PROJECT["dependencies"])) == CORE


def test_the_extra_all_is_all_that_users_need():
    (names,) = re.findall(r"\[(.+)\]", PROJECT["optional-dependencies"]["all"][0])
    assert (
        set(names.split(","))
        == set(PROJECT["optional-dependencies"]) - FOR_DEVELOPERS - CLUSTERS - OTHER_TOOLS
    )


def test_the_demo_installs_nothing_large_that_it_does_not_use():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (extras,) = re.findall(r"/\.demo:.*\n(?:\t.*\n)*?\t.*'\.\[([\w,]+)\]'", makefile)
    assert set().union(*(brought_by(extra) for extra in extras.split(","))) & HEAVY == {
        "pandas",
        "matplotlib",
    }


def closure(lines: list[str]) -> set[str]:
    """All packages that these requirements bring, as the metadata of what is installed says."""
    found = set()
    todo = [Requirement(line) for line in lines]
    while todo:
        one = todo.pop()
        asked = (canonicalize_name(one.name), *sorted(one.extras))
        if asked in found:
            continue
        found.add(asked)
        try:
            needed = [Requirement(line) for line in requires(one.name) or []]
        except PackageNotFoundError:
            continue
        extras = [{"extra": extra} for extra in ("", *one.extras)]
        todo += [
            r
            for r in needed
            if r.marker is None or any(r.marker.evaluate(extra) for extra in extras)
        ]
    return {name for name, *_ in found}


def brought_by(extra: str) -> set[str]:
    return closure(PROJECT["dependencies"] + PROJECT["optional-dependencies"].get(extra, []))


def owners_of(module: str) -> set[str]:
    """The packages that a module is of; for one that is not installed here, the package of its own name."""
    name = module.partition(".")[0]
    return {canonicalize_name(owner) for owner in distributions().get(name, [name])}


distributions = cache(packages_distributions)


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_no_extra_brings_heavy_packages_it_did_not_name(extra):
    assert brought_by(extra) & HEAVY <= EXTRAS.get(extra, set()) | THEIR_OWN.get(extra, set())


def test_every_package_that_is_imported_comes_with_some_extra():
    brought = set().union(*(brought_by(extra) for extra in EXTRAS))
    ours = {
        (module, path.name)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for module in imported(node)
    }
    strange = {
        (module, file)
        for module, file in ours
        if module not in sys.stdlib_module_names | OURS and not owners_of(module) & brought
    }
    assert strange == set()


def imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return {node.module.partition(".")[0]}
    return set()


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_who_needs_an_extra_names_one_that_brings_it(extra):
    """`require(module, extra)` tells users what to install: it must help."""
    call = re.compile(r'require\("([\w.]+)", (?:extra=)?"(\w+)"\)')
    for path in PACKAGE.rglob("*.py"):
        for module, named in call.findall(path.read_text(encoding="utf-8")):
            assert named != extra or owners_of(module) & brought_by(extra), f"{path.name}: {module}"
