"""Whether the pages say what is: names, calls, commands, options, links, files and tests that they speak of.

    python docs/lint.py         a line a problem, exit code 1 if there is one (in `make check`)

What the pages print as Python, and their commands, is run by the tests (tests/integration/test_docs_code.py).
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import itertools
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import site_commands  # noqa: E402
from typer.main import get_command  # noqa: E402

import hedgerow  # noqa: E402
from hedgerow.cli.app import app  # noqa: E402
from hedgerow.core.errors import MissingExtra  # noqa: E402
from hedgerow.lab import PARTS, STUDIES  # noqa: E402
from hedgerow.methods import as_table  # noqa: E402

Pages = dict[str, str]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.M | re.S)
INDENTED = re.compile(r"^    ((?:make|python|hedgerow|pip) .*)$", flags=re.M)
TABLE = re.compile(r"^\|(.+)\|$", flags=re.M)
GROUPS = {f"hedgerow.{kind}s" for kind in ("aligner", "head", "mixer")}  # of entry points; `hedgerow.methods` is both
COMMANDS: Any = get_command(app).commands  # type: ignore[attr-defined]
LONGEST_README = 120  # lines
SHUFFLING = ["README.md", "docs/streams.md", "docs/paper.md", "examples/quickstart.py", "examples/own_method.py"]

# what the paper has, in its own order
EQUATIONS = [f"Eq. {i}" for i in range(1, 18)]
UNNUMBERED = [
    "Sec. 3.2, f(x)",
    "Sec. 3.3, X^p",
    "Sec. 3.3, f_S",
    "Sec. 3.4, x^p",
    "Sec. 3.4, z and r",
    "Theorem 1, beta",
    "Theorem 1, M_min",
    "Sec. 4.3, beta",
    "Theorem 1",
    "Sec. 4.3, settings",
]
LINES = ["Alg. 1, input", *(f"Alg. 1, line {i}" for i in range(1, 19)), "Alg. 1, output"]
TABLES = [f"Table {i}" for i in range(1, 4)]
FIGURES = [f"Fig. {i}" for i in range(1, 6)]


def read_pages() -> Pages:
    """Every page of the repository by its path, with its text."""
    paths = [path for glob in ("*.md", "docs/*.md", "docs/book/*.md", "bench*/**/*.md") for path in ROOT.glob(glob)]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(paths)}


def commands_of(text: str) -> list[str]:
    """Lines that a reader would type, without the remark behind them."""
    blocks = [code for language, code in FENCE.findall(text) if language in ("", "console", "sh")]
    lines = [line for code in blocks for line in code.splitlines()] + INDENTED.findall(FENCE.sub("", text))
    bare = [re.sub(r"\s+#.*$", "", line).strip() for line in lines]
    return [line for line in bare if re.match(r"(make|python|hedgerow|pip|tail) ", line)]


def cells(text: str) -> list[list[str]]:
    """Every row of every table."""
    return [[cell.strip() for cell in line.split("|")] for line in TABLE.findall(text)]


def resolved(name: str) -> Any:
    """The thing that a dotted name stands for: the longest module of it, then attributes or fields."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:end]))
        except MissingExtra:  # its package has an environment of its own: `make test-capymoa`
            tree = ast.parse((ROOT / "src" / "hedgerow" / f"{parts[1]}.py").read_text(encoding="utf-8"))
            return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}[parts[2]]
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            fields = (
                {field.name: field for field in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else {}
            )
            thing = getattr(thing, part) if hasattr(thing, part) else fields[part]
        return thing
    raise LookupError(name)


# -- commands -----------------------------------------------------------------------------------------------------


def typed_commands(pages: Pages) -> Iterator[str]:
    """Every line that a reader would type has a target, an extra, a file, a name and options that exist."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for page, line in [(page, line) for page, text in pages.items() for line in commands_of(text)]:
        for part in line.split(" | "):
            first, *words = shlex.split(part)
            if first == "make":
                variables = [word.split("=")[0] for word in words[1:]]
                if f"\n{words[0]}:" not in makefile or any(f"$({name})" not in makefile for name in variables):
                    yield f"{page}: no such target or variable: {line}"
            elif first == "pip":
                extras = {name for names in re.findall(r"\[([\w,]+)\]", part) for name in names.split(",")}
                if not extras <= set(project["optional-dependencies"]):
                    yield f"{page}: no such extra: {line}"
            elif first == "python":
                if not (ROOT / words[0]).is_file() and words[0] != "-m":
                    yield f"{page}: no such file: {line}"
            elif first == "hedgerow":
                try:
                    COMMANDS[words[0]].make_context(words[0], list(words[1:]))
                except Exception as error:  # those of the parser, which typer brings its own of
                    yield f"{page}: {line}: {error}"


def commands_within_the_text(pages: Pages) -> Iterator[str]:
    """`hedgerow ...` in a sentence has a name and options that exist; studies and parts of the report too."""
    spans = {(page, span) for page, text in pages.items() for span in re.findall(r"`(hedgerow [a-z][^`\n]*)`", text)}
    for page, span in sorted(spans):
        first, *words = span.split()[1:]
        names = {first, *words[1::2]} if words[:1] == ["|"] else {first}  # a list of commands
        if not names <= set(COMMANDS):
            yield f"{page}: no such command: {span}"
            continue
        known = {option for each in COMMANDS[first].params for option in (*each.opts, *each.secondary_opts)}
        if not {word.split("=")[0] for word in words if word.startswith("-") and word != "-"} <= known:
            yield f"{page}: no such option: {span}"
        values = {value for option, value in itertools.pairwise(words) if option.startswith("-")}
        studies = {word for word in words if word.islower() and word[0] != "-"} - values
        if first == "study" and words and words[0].islower() and not studies <= {*STUDIES, "all", "mine.py"}:
            yield f"{page}: no such study: {span}"
        if "--what" in words and not set(words[words.index("--what") + 1].split(",")) <= {*PARTS, "all"}:
            yield f"{page}: no such part of the report: {span}"


def parts_of_the_report(pages: Pages) -> Iterator[str]:
    """docs/paper.md and docs/methods.md name each part of the report once at least."""
    text = pages["docs/paper.md"] + pages["docs/methods.md"]
    shown = {
        part for parts in re.findall(r"`hedgerow paper [^`\n]*--what ([\w,-]+)", text) for part in parts.split(",")
    }
    for part in sorted(set(PARTS) - shown):
        yield f"docs/paper.md: `hedgerow paper --what {part}` is mentioned nowhere"


def page_of_commands(pages: Pages) -> Iterator[str]:
    """The page of commands, which the site makes, has every command and option."""
    text = site_commands.commands()
    for name, command in COMMANDS.items():
        part = text.split(f"## {name}\n")[-1].split("\n## ")[0]
        words = [word for each in command.params if each.param_type_name == "option" for word in each.opts]
        if f"## {name}\n" not in text or any(f"`{word}`" not in part for word in words):
            yield f"docs/commands.md: {name} or an option of it is missing"


# -- names and links ----------------------------------------------------------------------------------------------


def dotted_names(pages: Pages) -> Iterator[str]:
    """`hedgerow.a.b` exists."""
    for page, text in pages.items():
        for name in sorted(set(re.findall(r"`(hedgerow(?:\.\w+)+)`", text)) - GROUPS):
            try:
                resolved(name)
            except (LookupError, AttributeError):
                yield f"{page}: no such name: {name}"


def links(pages: Pages) -> Iterator[str]:
    """Every relative link and picture is there, and the heading that a link leads to."""
    for page, text in pages.items():
        here = ROOT / page
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
            path, _, anchor = target.partition("#")
            there = (here.parent / path).resolve() if path else here
            if re.match(r"[a-z]+:", target):
                continue
            if not there.exists():
                yield f"{page}: no such file: {target}"
            elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text(encoding="utf-8")):
                yield f"{page}: no such heading: {target}"


def anchors(text: str) -> set[str]:
    """As a code host makes them of headings."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def named_files(pages: Pages) -> Iterator[str]:
    """Files that DESIGN.md speaks of, and tests that any page names as evidence."""
    for name in sorted(set(re.findall(r"[`(]([\w/.]+/[\w.]+\.(?:py|md))[`)]", pages["DESIGN.md"]))):
        if not (ROOT / name).is_file() and not (ROOT / "src" / "hedgerow" / name).is_file():
            yield f"DESIGN.md: no such file: {name}"
    for page, text in pages.items():
        for span in sorted(set(re.findall(r"`(tests/[^`\n]+\.py[^`\n]*)`", text))):
            file, _, name = span.partition("::")
            source = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
            if not re.search(rf"^def {name or 'test_.*'}\(", source, flags=re.M):
                yield f"{page}: no such test: {span}"


def table_of_contents(pages: Pages) -> Iterator[str]:
    """Every page of docs has one place; new pages get it by themselves, if guide.md leaves room for them."""
    if site_commands.OTHER_PAGES not in pages["docs/guide.md"]:
        yield "docs/guide.md: no place for new pages"
    entries = [
        line.strip()
        for name in site_commands.LISTS
        for block in re.findall(r"^```{toctree}\n(.*?)^```", pages[f"docs/{name}"], flags=re.M | re.S)
        for line in block.splitlines()
    ]
    named = [name for name in entries if (ROOT / "docs" / f"{name}.md").is_file() and not name.startswith("../")]
    for name in sorted({name for name in named if named.count(name) > 1}):
        yield f"docs: {name} stands in two lists"
    there = {path.stem for path in (ROOT / "docs").glob("*.md")} | {"book/index"}
    for name in sorted(there ^ {*named, *site_commands.other_pages(ROOT / "docs").split(), "index"}):
        yield f"docs: {name} is in no list, or is no page"


# -- what single pages promise ------------------------------------------------------------------------------------


def readme(pages: Pages) -> Iterator[str]:
    """README.md: the two commands to start with, the five lines, results that stand on the page their row names."""
    text = pages["README.md"]
    if re.findall(r"^make \w+", text, flags=re.M)[:2] != ["make demo", "make test"]:
        yield "README.md: the first commands must be make demo and make test"
    if "OnlineTransferClassifier().fit_domains(sources, warmup)" not in dict(FENCE.findall(text)[::-1])["python"]:
        yield "README.md: the first Python must be the five lines"
    if text.count("\n") > LONGEST_README:
        yield f"README.md: more than {LONGEST_README} lines"
    for line in re.findall(r"^\|.*\|$", text, flags=re.M):
        for linked in re.findall(r"\(((?:docs|bench)/[\w/.-]+\.md)\)", line):
            figures = re.findall(r"\d+\.\d+|(?<= of )\d+", line.replace("*", ""))
            for figure in (each for each in figures if each not in pages[linked]):
                yield f"README.md: {figure} does not stand in {linked}: {line}"


def methods(pages: Pages) -> Iterator[str]:
    """docs/methods.md: every parameter of the classifier, every method."""
    text = pages["docs/methods.md"]
    listed = re.search(r"The classifier has (\d+) parameters: ([\w\s,]+)\.", text)
    names = list(inspect.signature(hedgerow.OnlineTransferClassifier).parameters)
    if not listed or re.split(r",\s+", listed[2]) != names or int(listed[1]) != len(names):
        yield f"docs/methods.md: the parameters of the classifier are {names}"
    if not set(hedgerow.METHODS) <= set(re.findall(r"^\| `([\w-]+)` \|", text, flags=re.M)):
        yield f"docs/methods.md: the methods are {sorted(hedgerow.METHODS)}"


def messages(pages: Pages) -> Iterator[str]:
    """docs/troubleshooting.md: messages in the first column are those of the code."""
    sources = " ".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src" / "hedgerow").rglob("*.py")))
    joined = re.sub(r'"\s*\n\s*f?"', "", sources)  # a string on several lines
    for row in cells(pages["docs/troubleshooting.md"]):
        for message in re.findall(r"`([^`]*[a-z] [^`]*)`", row[0]):
            if message not in joined:
                yield f"docs/troubleshooting.md: the code has no such message: {message}"


def shuffling(pages: Pages) -> Iterator[str]:
    """Wherever `split` is shown it is said that it shuffles, and how it does not."""
    for name in SHUFFLING:
        text = (ROOT / name).read_text(encoding="utf-8")
        if not all(word in text for word in ("split", "shuffle", "seed=None")):
            yield f"{name}: split is to be shown, and that it shuffles unless seed=None"


def design(pages: Pages) -> Iterator[str]:
    """The packages are those of the import layers, in their order."""
    text = pages["DESIGN.md"]
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    layers = [set(layer.split(" | ")) for layer in tool["importlinter"]["contracts"][0]["layers"]]
    rows = cells(text[: text.index("## The contract")])
    if [set(re.findall(r"`(\w+)`", row[0])) for row in rows if row[0].startswith("`")] != layers:
        yield "DESIGN.md: the packages are not the import layers of pyproject.toml"


def paper(pages: Pages) -> Iterator[str]:
    """Everything that the paper has is mapped once, in its order, and marked by its number in the source."""
    rows = [row for row in cells(pages["docs/paper.md"]) if re.match(r"(Eq|Alg|Sec|Fig)\. |Table \d|Theorem 1", row[0])]
    firsts = [row[0] for row in rows]
    for name in sorted({*firsts} ^ {*EQUATIONS, *UNNUMBERED, *LINES, *TABLES, *FIGURES}):
        yield f"docs/paper.md: {name} is not mapped, or is not in the paper"
    for wanted in (EQUATIONS, LINES, TABLES, FIGURES, UNNUMBERED):
        if sorted(name for name in firsts if name in wanted) != sorted(wanted):
            yield f"docs/paper.md: one of {wanted} is mapped twice or not at all"
        if wanted is not UNNUMBERED and [name for name in firsts if name in wanted] != wanted:
            yield f"docs/paper.md: {wanted} stand in another order than in the paper"
    for row in rows:
        if not re.search(r"`(hedgerow[. ]|OnlineTransferClassifier\()", row[2]):
            yield f"docs/paper.md: {row[0]} is mapped to nothing"
        elif row[0] in EQUATIONS:
            named = re.findall(r"`(hedgerow\.[\w.]+)`", " ".join(row[2:4]))
            files = {inspect.getsourcefile(plain(resolved(name))) for name in named}
            texts = [Path(file).read_text(encoding="utf-8") for file in files if file]
            number = row[0].removeprefix("Eq. ")
            if not any(re.search(rf"Eq\. (\d+(, | and | to ))*{number}\b", source) for source in texts):
                yield f"docs/paper.md: {row[0]} is not marked in {sorted(map(str, files))}"


def plain(thing: Any) -> Any:
    """The function that a compiled loop or a property was made of."""
    return getattr(thing, "py_func", getattr(thing, "fget", thing))


def readings(pages: Pages) -> Iterator[str]:
    """The table of the readings of the paper is that of the code."""
    table = {row["option"]: row for row in as_table()}
    rows = [row for row in cells(pages["docs/paper.md"]) if len(row) == 6 and row[1].strip("`") in table]
    if [row[0] for row in rows] != [str(number) for number in range(1, 13)]:
        yield "docs/paper.md: the readings are not the twelve, or stand in another order"
    for row in rows:
        for name, shown in zip(("paper", "authors", "table", "general"), row[2:], strict=True):
            value = table[row[1].strip("`")][name]
            if shown != ("+".join(value) if isinstance(value, tuple) else str(value)):
                yield f"docs/paper.md: {row[1]} in the reading {name} is {value}, not {shown}"


def streams(pages: Pages) -> Iterator[str]:
    """A section a study, which says how to run it and where it loses."""
    _, *sections = re.split(r"^## ", pages["docs/streams.md"], flags=re.M)
    if [section.split("\n")[0] for section in sections] != list(STUDIES):
        yield f"docs/streams.md: the studies are {list(STUDIES)}"
    for section in sections:
        name = section.split("\n")[0]
        if f"`hedgerow study {name}`" not in section or "Where it loses:" not in section:
            yield f"docs/streams.md: {name} does not say how to run it, or where it loses"


def gallery(pages: Pages) -> Iterator[str]:
    """Examples are numbered, have a title and a few words, show something, and name the data that they need."""
    examples = sorted((ROOT / "examples" / "gallery").glob("*.py"))
    if [path.stem[:2] for path in examples] != [f"{i:02d}" for i in range(1, len(examples) + 1)]:
        yield "examples/gallery: the numbers have a hole, or one stands there twice"
    for path in examples:
        text = path.read_text(encoding="utf-8")
        title, line, *rest = (ast.get_docstring(ast.parse(text)) or "\n").splitlines()
        if set(line) != {"="} or len(line) < len(title) or len(" ".join(rest)) < 80:
            yield f"examples/gallery/{path.name}: no title with a few words below it"
        if "print(" not in text and "plt." not in text:
            yield f"examples/gallery/{path.name}: shows nothing"
        needs = re.findall(r'load\("(?!digits)([\w-]+)"\)', text)
        if bool(needs) != ("_data_" in path.stem):
            yield f"examples/gallery/{path.name}: with data that is not embedded it is called NN_data_NAME.py"
        if any(f"Needs the data set {name}" not in " ".join(text.split()) for name in needs):
            yield f"examples/gallery/{path.name}: does not say which data set it needs"


def public_names(pages: Pages) -> Iterator[str]:
    """Every public name has a docstring with an example; so have methods and keywords of the estimator."""
    for name in sorted(set(hedgerow.__all__) - {"METHODS", "__version__"}):
        text = inspect.getdoc(getattr(hedgerow, name)) or ""
        if len(text) < 20 or ">>>" not in text:
            yield f"hedgerow.{name}: no docstring with an example"
    estimator = hedgerow.OnlineTransferClassifier
    ours = [cls for cls in estimator.__mro__ if cls.__module__.startswith("hedgerow.")]
    for name in sorted({name for cls in ours for name in vars(cls) if not name.startswith("_")}):
        member = getattr(estimator, name)
        if (callable(member) or isinstance(member, property)) and not inspect.getdoc(member):
            yield f"hedgerow.OnlineTransferClassifier.{name}: no docstring"
    for name in inspect.signature(estimator).parameters:
        if name not in (inspect.getdoc(estimator) or ""):
            yield f"hedgerow.OnlineTransferClassifier: the keyword {name} is not documented"


CHECKS: tuple[Callable[[Pages], Iterator[str]], ...] = (
    typed_commands,
    commands_within_the_text,
    parts_of_the_report,
    page_of_commands,
    dotted_names,
    links,
    named_files,
    table_of_contents,
    readme,
    methods,
    messages,
    shuffling,
    design,
    paper,
    readings,
    streams,
    gallery,
    public_names,
)


def main() -> int:
    """Exit code 0 if all is well; else every problem, a line each."""
    pages = read_pages()
    problems = [problem for check in CHECKS for problem in check(pages)]
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"{len(pages)} pages, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
