"""Which pages the site has, what they are made of, and in which order a new reader is shown them.

README.md is cut up: what stands before its clients, and behind them, is the first page; each client has a page of its
own. A file of the project that a page names is in the site as text, for there is no repository beside it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

from distributions.site.markdown import converted, links

ROOT = Path(__file__).resolve().parents[2]
FIRST, CHANGES, DECISIONS = "index.md", "changes.md", "decisions/index.md"
TRANSLATED = {"README.md": FIRST, "CHANGELOG.md": CHANGES, "docs/decisions": DECISIONS}
CLIENTS = "clients"
BELOW = "What each client was seen to do: [Compatibility](docs/compatibility.md#what-clients-see)."
PARTS_OF_PAGES = ("benchmarks-notes.md", "benchmarks-spark-notes.md")
"""They are in other pages already."""
SHOWN = (".md", ".png", ".svg")
Nav = list[dict[str, "str | Nav"]]

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "Tallystick": FIRST,
        "A walk of ten minutes": "tutorial.md",
        "Transactions, for users": "transactions.md",
        "In your tests": "pytest.md",
        "What is new": CHANGES,
    },
    "Clients": {},
    "Spark": {
        "Source and sink": "spark.md",
        "Ten recipes": "spark-recipes.md",
        "Three pipelines": "pipelines.md",
        "Benchmarks with Spark": "benchmarks-spark.md",
    },
    "Operate": {
        "Running it": "operations.md",
        "Backups": "backup.md",
        "Over PostgreSQL": "store.md",
        "Several nodes": "cluster.md",
        "Security": "security.md",
        "The console": "console.md",
        "Metrics": "metrics.md",
    },
    "Explain": {
        "Why it stands still, and who did it": "explain.md",
        "Traces of transactions": "traces.md",
    },
    "Reference": {
        "Commands": "commands.md",
        "Compatibility": "compatibility.md",
        "Fault points": "faults.md",
        "Control over HTTP": "http-control.md",
    },
    "How it is made": {
        "Architecture": "architecture.md",
        "Invariants and known defects": "invariants.md",
        "How it is tested": "testing.md",
        "Benchmarks": "benchmarks.md",
        "Attacks": "attacks.md",
        "Planted defects": "mutants.md",
    },
    "Decisions": {},
}
"""What a tab says → what is under it. Clients and decisions are found where they are written down."""
OTHERS = "Reference"
"""Where a page is that no tab names."""


class PageNowhere(Exception):
    """A tab names a page that is not there, or the README is not what is cut up here; the text says which."""


@dataclass(slots=True)
class Site:
    """What the site is made of: the text of each page by its name, files copied as they are, and the order."""

    pages: dict[str, str] = field(default_factory=dict)
    copied: dict[str, Path] = field(default_factory=dict)
    nav: Nav = field(default_factory=list)


def site(root: Path = ROOT) -> Site:
    """All of it. Raises `PageNowhere`."""
    made = Site()
    written = sources(root)
    for name, (source, text) in written.items():
        for link in links(text):
            _bring(made, root, source, link)
        made.pages[name] = converted(text, _Leading(root, name, source, written))
    for path in sorted((root / "docs").rglob("*")):
        if path.suffix in SHOWN and path.suffix != ".md":
            made.copied[path.relative_to(root / "docs").as_posix()] = path
    made.nav = _nav(written)
    return made


def sources(root: Path) -> dict[str, tuple[str, str]]:
    """The name of a page → the file that its links are to be understood from, and its text."""
    docs = root / "docs"
    found = {
        path.relative_to(docs).as_posix(): (path.relative_to(root).as_posix(), path.read_text())
        for path in sorted(docs.rglob("*.md"))
        if path.name not in PARTS_OF_PAGES
    }
    found |= {name: ("README.md", text) for name, text in parts_of_readme((root / "README.md").read_text()).items()}
    found[CHANGES] = ("CHANGELOG.md", (root / "CHANGELOG.md").read_text())
    found[DECISIONS] = ("docs/decisions/index.md", _list_of_decisions(found))
    return found


def parts_of_readme(text: str) -> dict[str, str]:
    """The first page, and one for each heading of the third level among the clients. What stands between the heading of
    the clients and the first of these goes with the first page. Raises `PageNowhere`."""
    before, mark, rest = text.partition("\n## Clients\n")
    among, end, behind = rest.partition("\n## ")
    if not mark or not end:
        raise PageNowhere("README.md has no heading for its clients, or none behind them")
    general, *each = re.split(r"^### ", among, flags=re.MULTILINE)
    pages: dict[str, str] = {}
    entries: list[str] = []
    for part in each:
        title, _, body = part.partition("\n")
        title = title.strip()
        path = f"{CLIENTS}/{_slug(title)}.md"
        pages[path] = f"# {title}\n{body.rstrip()}\n\n{BELOW}\n"
        entries.append(f"- [{title}]({path})")
    first = f"{before}\n{mark.strip()}\n{general.rstrip()}\n\n" + "\n".join(entries) + f"\n\n## {behind}"
    return {FIRST: first, **pages}


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _list_of_decisions(found: Mapping[str, tuple[str, str]]) -> str:
    rows = [f"- [{_title(text)}]({PurePosixPath(name).name})" for name, (_, text) in _decisions(found)]
    head = "# Decisions\n\nWhy it is as it is: each page says what was decided, and what else could have been.\n\n"
    return head + "\n".join(rows) + "\n"


def _decisions(found: Mapping[str, tuple[str, str]]) -> list[tuple[str, tuple[str, str]]]:
    return [(name, one) for name, one in sorted(found.items()) if name.startswith("decisions/") and name != DECISIONS]


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ").strip()


def _nav(written: Mapping[str, tuple[str, str]]) -> Nav:
    clients = {_title(text): name for name, (_, text) in written.items() if name.startswith(f"{CLIENTS}/")}
    decisions = {"All of them": DECISIONS, **{_title(text): name for name, (_, text) in _decisions(written)}}
    found = {"Clients": clients, "Decisions": decisions}
    shown = {tab: dict(found.get(tab, pages)) for tab, pages in SECTIONS.items()}
    named = {name for pages in shown.values() for name in pages.values()}
    if lost := sorted(named - set(written)):
        raise PageNowhere(f"not there: {', '.join(lost)}")
    shown[OTHERS] |= {_title(text): name for name, (_, text) in written.items() if name not in named}
    return [{tab: [{title: name} for title, name in pages.items()]} for tab, pages in shown.items()]


def _target(source: str, link: str) -> tuple[str, str] | None:
    """The path in the repository, and the rest; None for what is no path of it."""
    path, hash_sign, anchor = link.partition("#")
    if re.match(r"[a-z]+:", link) or not path:
        return None
    return normpath(f"{PurePosixPath(source).parent}/{path}"), hash_sign + anchor


@dataclass(frozen=True, slots=True)
class _Leading:
    """Where the links of one page lead to. One that shows the name of a file shows what the page of it is called."""

    root: Path
    at: str
    source: str
    written: Mapping[str, tuple[str, str]]

    def __call__(self, shown: str, link: str) -> tuple[str, str | None]:
        target = _target(self.source, link)
        if target is None:
            return shown, link
        path, anchor = target
        name = _name_of(self.root, path)
        if name is None:
            return shown, None
        if re.fullmatch(r"[\w./-]+(\.md|/)", shown) and name in self.written:
            shown = _title(self.written[name][1])
        return shown, relpath(name, PurePosixPath(self.at).parent.as_posix()) + anchor


def _name_of(root: Path, path: str) -> str | None:
    """What a file of the repository is called in the site; None for a folder, which has no page."""
    if path in TRANSLATED:
        return TRANSLATED[path]
    if path.startswith(f"{CLIENTS}/"):  # a page made of the README
        return path
    if path.startswith("docs/") and path.endswith(SHOWN):
        return path.removeprefix("docs/")
    return None if (root / path).is_dir() else f"source/{path}.txt"


def _bring(made: Site, root: Path, source: str, link: str) -> None:
    target = _target(source, link)
    name = None if target is None else _name_of(root, target[0])
    if target is not None and name is not None and name.startswith("source/"):
        made.copied[name] = root / target[0]
