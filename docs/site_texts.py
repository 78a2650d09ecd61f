"""What `make docs` writes beside the pages: the cheat sheet, a Markdown twin of every page, and llms.txt.

Nothing of it is committed. Links of llms.txt are absolute once `ADDRESS` of conf.py is set.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

VERBS = (
    "fit_domains", "fit", "predict_one", "predict_proba_one", "learn_one", "predict", "partial_fit",
    "predict_then_learn", "predict_set", "explain_one", "save", "load",
)  # fmt: skip
ABOUT = "Online transfer learning in Python: start from labelled data of other domains, learn along a new one's stream."


def first_sentence(text: str | None) -> str:
    """Up to the first full stop; marks of reStructuredText are left out."""
    words = " ".join((text or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) ", words)[0].replace("``", "`").replace("|", "\\|")


def cheatsheet() -> str:
    """One page: the verbs of a model and the commands, each with the first sentence of its documentation."""
    from hedgerow import OnlineTransferClassifier
    from hedgerow.cli.app import app

    methods = [(name, inspect.getdoc(getattr(OnlineTransferClassifier, name))) for name in VERBS]
    commands = [(name, app[name].help) for name in app if not name.startswith("-")]
    lines = [
        "# Cheat sheet",
        "",
        "```",
        "clf = OnlineTransferClassifier().fit_domains(sources, warmup)   # numbers: OnlineTransferRegressor",
        "clf.predict_one(x); clf.learn_one(x, y)                         # a row, later its label",
        "hedgerow fit --source a.csv --source b.csv --label y --unlabelled new.csv -o model.safetensors",
        "hedgerow run -m model.safetensors --input stream.csv --label y --output p.jsonl --journal live",
        "```",
    ]
    for title, rows in (("method", methods), ("command", commands)):
        lines += ["", f"| {title} | |", "|---|---|"]
        lines += [f"| `{name}` | {first_sentence(text)} |" for name, text in rows]
    return "\n".join(lines) + "\n"


def write_cheatsheet(path: Path) -> None:
    """As a page for Sphinx to find."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(cheatsheet(), encoding="utf-8")


def write_twins(app: Any, failed: Exception | None) -> None:
    """The source of every Markdown page beside its HTML, and llms.txt, which lists them with their first sentence."""
    if failed or app.builder.format != "html":
        return
    address = app.config.html_baseurl
    lines = [f"# {app.config.project}", "", f"> {ABOUT}", "", "## Pages", ""]
    for name in sorted(app.env.found_docs):
        source = Path(app.env.doc2path(name))
        if source.suffix != ".md":
            continue
        text = source.read_text(encoding="utf-8")
        twin = Path(app.outdir) / f"{name}.md"
        twin.parent.mkdir(parents=True, exist_ok=True)
        twin.write_text(text, encoding="utf-8")
        title = app.env.titles[name].astext()
        paragraphs = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S).split("\n\n")
        prose = next((each for each in paragraphs if re.match(r"\s?(\*\*)?\w", each)), "")
        about = f": {first_sentence(prose).replace('**', '')}" if prose else ""
        lines.append(f"- [{title}]({address}{name}.md){about}")
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    app.connect("build-finished", write_twins)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
