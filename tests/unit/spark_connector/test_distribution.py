"""`tallystick-spark`: one package, nothing of the broker, and everything it imports in it."""

import ast
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("packaging")

from distributions.spark import vendored
from tests.harness.spark_wheel import build

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


def test_its_only_top_level_package_is_the_connector(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"spark_connector", "tallystick_spark-0.1.0.dist-info"}
    assert not [name for name in names if "pipelines" in name or name.endswith((".pyc", "Dockerfile"))]
    assert any(name.startswith("tallystick_spark-0.1.0.dist-info/licenses/LICENSE") for name in names)


def test_nothing_but_imports_is_rewritten() -> None:
    text = (
        "from protocol.errors import ErrorCode\nimport keystores\n    from tallystick.client.client import Client\n"
        "from protocols import x\nthe protocol.errors of `tallystick.client`\nfrom tallystick import Broker\n"
    )
    assert vendored.rewritten(text) == (
        "from spark_connector._vendor.protocol.errors import ErrorCode\nimport spark_connector._vendor.keystores\n"
        "    from spark_connector._vendor.client.client import Client\n"
        "from protocols import x\nthe protocol.errors of `tallystick.client`\nfrom tallystick import Broker\n"
    )
    before = (ROOT / "protocol/framing.py").read_text()
    after = vendored.sources()["spark_connector/_vendor/protocol/framing.py"]
    changed = [new for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new]
    assert changed and all(line.startswith("from spark_connector._vendor.") for line in changed)


def test_what_would_import_something_of_ours_is_no_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendored, "rewritten", lambda text: text)
    with pytest.raises(vendored.NotSelfContained, match="is not in the distribution"):
        vendored.sources()


def test_every_module_that_spark_is_not_needed_for_can_be_imported_alone(wheel: Path, tmp_path: Path) -> None:
    """From the wheel itself, in a process that finds nothing else of ours."""
    spark = {"pyspark", "py4j", "pyarrow", "numpy", "pandas", "fastavro", "google"}
    modules, needs = [], {}
    for path, text in vendored.sources().items():
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        needs[name] = {one.partition(".")[0] for one in _imported_at_once(text)} & spark, _imported_at_once(text)
    for name in needs:
        if not _needs_spark(name, needs, set()):
            modules.append(name)
    assert "spark_connector.access" in modules and "spark_connector._vendor.client.lease" in modules
    program = (
        f"import importlib, sys\nsys.path.insert(0, {str(wheel)!r})\n"
        f"sys.meta_path[:] = [one for one in sys.meta_path if 'editable' not in repr(one)]\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        f"print(sorted({{name.partition('.')[0] for name in sys.modules}} & {set(vendored.OURS)!r}))\n"
        "from spark_connector._vendor.client.security_settings import security_of\n"
        "print(security_of({'security.protocol': 'SSL'}).tls is not None)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["[]", "True"], done.stderr


def _imported_at_once(text: str) -> set[str]:
    """By importing a module, and not only by calling something of it."""
    found: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found


def _needs_spark(name: str, needs: dict[str, tuple[set[str], set[str]]], seen: set[str]) -> bool:
    seen.add(name)
    direct, imported = needs[name]
    return bool(direct) or any(_needs_spark(one, needs, seen) for one in imported if one in needs and one not in seen)


def test_its_version_and_libraries_are_those_of_the_whole() -> None:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = tomllib.loads((ROOT / "distributions/spark/pyproject.toml").read_text())["project"]
    assert own["version"] == whole["version"] and own["requires-python"] == whole["requires-python"]
    extras = whole["optional-dependencies"]
    known = {*whole["dependencies"], *extras["security"], *extras["spark"]}
    assert set(own["dependencies"]) <= known and set(own["optional-dependencies"]["registry"]) <= known
