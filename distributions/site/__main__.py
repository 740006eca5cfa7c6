"""Writes what mkdocs makes the site of: `python -m distributions.site FOLDER`. The site is in FOLDER/site afterwards,
if mkdocs is told the settings in FOLDER/mkdocs.yml."""

import json
import shutil
import sys
from pathlib import Path

from distributions.site.pages import site

HERE = Path(__file__).resolve().parent
OWN = ("site.css", "iframe-worker.js")


def assemble(folder: Path) -> None:
    """The folder is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    made = site()
    pages = folder / "pages"
    for name, text in made.pages.items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        (pages / name).write_text(text)
    for name, source in {**made.copied, **{f"assets/{name}": HERE / name for name in OWN}}.items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, pages / name)
    settings = {"INHERIT": str(HERE / "mkdocs.yml"), "docs_dir": "pages", "site_dir": "site", "nav": made.nav}
    # What is JSON is YAML.
    (folder / "mkdocs.yml").write_text(json.dumps(settings, indent=1) + "\n")


if __name__ == "__main__":
    assemble(Path(sys.argv[1]).resolve())
