"""No link of the documents leads nowhere: the file is there, and the heading is on its page."""

import re
import unicodedata
from pathlib import Path

import pytest

from tests.harness.source_tree import ROOT, names

PAGES = [name for name in names("README.md", "CHANGELOG.md", "docs", "distributions") if name.endswith(".md")]
LINK = re.compile(r"(?<!!)\[(?:[^][]|\[[^][]*\])*\]\(([^)\s]+)(?: \"[^\"]*\")?\)|!\[[^]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)


def text_of(page: str) -> str:
    """Without what is shown as it stands."""
    return FENCE.sub("", (ROOT / page).read_text())


def anchors(page: str) -> set[str]:
    """What a heading can be reached by: as GitHub makes it of its text, and ids that are written down."""
    text = text_of(page)
    found = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        kept = "".join(one for one in shown.lower() if unicodedata.category(one)[0] in "LN" or one in " -_")
        name = kept.replace(" ", "-")
        again = sum(1 for one in found if re.fullmatch(rf"{re.escape(name)}(-\d+)?", one))
        found.add(f"{name}-{again}" if again else name)
    return found


def links(page: str) -> list[str]:
    text = CODE.sub(lambda one: "x" * len(one[0]), text_of(page))
    return [first or second for first, second in LINK.findall(text)]


def test_the_pages_have_links() -> None:
    assert len(PAGES) > 30
    assert sum(len(links(page)) for page in PAGES) > 150


@pytest.mark.parametrize("page", PAGES)
def test_each_link_leads_somewhere(page: str) -> None:
    lost = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent.joinpath(path).resolve() if path else ROOT / page
        if not target.exists():
            lost.append(f"{link}: there is no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(str(target.relative_to(ROOT))):
            lost.append(f"{link}: there is no such heading")
    assert lost == []


def test_headings_become_anchors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.distributions.test_links.ROOT", tmp_path)
    (tmp_path / "a.md").write_text("# Over HTTP\n```\n# not one\n```\n## `a.b=c`, and [more](x.md)\n## Over HTTP\n")
    assert anchors("a.md") == {"over-http", "abc-and-more", "over-http-1"}
