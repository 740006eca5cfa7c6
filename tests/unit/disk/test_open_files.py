"""Which files are open: a renamed folder takes its files along, and looks at no others."""

from pathlib import Path
from typing import Any, cast

import pytest

from broker.disk.local_files import LocalFiles
from broker.disk.open_files import OpenFiles


class Named:
    """An open file, as far as its name goes; counts how often it is given one."""

    renamed = 0

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def path(self) -> str:
        return self._path

    @path.setter
    def path(self, path: str) -> None:
        Named.renamed += 1
        self._path = path


def opened(*paths: str) -> tuple[OpenFiles, dict[str, Any]]:
    index, files = OpenFiles(), {path: cast(Any, Named(path)) for path in paths}
    for path, file in files.items():
        index.add(path, file)
    return index, files


def test_a_renamed_folder_takes_along_what_is_inside() -> None:
    index, files = opened("a/1", "a/b/2", "ab/3", "a")
    index.moved("a", "c")
    assert index.get("c/1") is files["a/1"]
    assert index.get("c/b/2") is files["a/b/2"]
    assert index.get("ab/3") is files["ab/3"]
    assert index.get("a/1") is None
    index.moved("c/b", "d")
    assert index.get("d/2") is files["a/b/2"]
    assert files["a/b/2"].path == "d/2"


def test_a_renamed_folder_looks_at_no_other_file() -> None:
    class Counted(dict[str, Any]):
        looked_at = 0

        def __iter__(self) -> Any:
            raise AssertionError("all open files are looked at")

    index, _ = opened(*[f"topic-{partition}/{name}" for partition in range(100) for name in "abc"])
    index._by_path = Counted(index._by_path)
    index._inside = Counted(index._inside)
    Named.renamed = 0
    index.moved("topic-7", "gone")
    assert Named.renamed == 3


@pytest.mark.parametrize("paths", [["a/1"], ["a/1", "a/2", "b/c/3"]])
def test_nothing_is_kept_of_what_is_closed(paths: list[str]) -> None:
    index, files = opened(*paths)
    for path, file in files.items():
        assert index.remove(path) is file
    assert not index._inside
    assert index.remove(paths[0]) is None


def test_a_file_that_replaces_another_is_found_by_its_name(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    old, new = files.open("old", create=True), files.open("new", create=True)
    new.append([b"new"])
    files.rename("new", "old")
    old.close()
    assert files.open("old") is new
    files.close()
