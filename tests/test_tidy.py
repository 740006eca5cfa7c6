"""The rules of the tree that no other tool checks: sizes, names, who reads the world, what is documented, what is
dead.
"""

import ast
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from broker.api.api_families import load_handlers
from tests.harness import commands_page, compatibility, permissions
from tests.harness.syntax import parsed_file

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("protocol", "keystores", "storage", "coordinator", "broker", "tallystick", "spark_connector")
BOUNDS = ROOT / "docs" / "decisions" / "0009-what-clients-can-make-us-hold.md"
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
MAX_FILES_IN_A_FOLDER = 20
FORBIDDEN_WORDS = {"common", "utils", "util", "helpers", "helper", "core", "manager", "misc"}

READS_THE_WORLD = {
    "broker/process/log_writer.py",
    "broker/process/stall_monitor.py",
    "broker/process/environment.py",
    "broker/disk/descriptor_cache.py",
    "broker/disk/local_files.py",
    "broker/__main__.py",
    "broker/config/advertised_file.py",
    "broker/backups/__main__.py",
    "broker/config/sources.py",
    "keystores/key_files.py",
    "tallystick/certificates.py",
    "tallystick/postgresql_process.py",
    "tallystick/process.py",
    "tallystick/startup_guard.py",
    "tallystick/child_broker.py",
    "tallystick/copied_folder.py",
    "tallystick/console/sessions.py",
}
"""Files that may read the clock, draw randomness or open files; `tallystick/demo` and `tallystick/client` are programs
of their own beside the broker and may, too."""

CALLED_BY_OTHERS = {
    # asyncio and uvloop
    *("get_buffer", "buffer_updated", "eof_received", "pause_writing", "resume_writing", "data_received"),
    # Spark
    *("streamReader", "streamWriter", "initialOffset", "latestOffset", "reportLatestOffset"),
    *("getDefaultReadLimit", "prepareForTriggerAvailableNow"),
    # Who tests a broker, from inside its process
    *("disarm", "has_started"),
    # The standard library's logging
    "emit",
}
"""Methods that are called from outside of this project."""

WORLD_MODULES = {"time", "random", "secrets"}
WORLD_CALLS = {"open", "datetime.now", "datetime.utcnow", "os.urandom", "uuid.uuid4", "uuid.uuid1"}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


OURS = python_files(*PACKAGES)
EVERYTHING = [*OURS, *python_files("tests")]


def test_files_are_short() -> None:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in EVERYTHING}
    assert {path: length for path, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_functions_are_short() -> None:
    long = []
    for path in EVERYTHING:
        for node in ast.walk(parsed_file(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    long.append(f"{relative(path)}:{node.name} has {length} lines")
    assert long == []


def test_nothing_is_called_by_a_name_that_says_nothing() -> None:
    names = {part for path in EVERYTHING for part in path.relative_to(ROOT).with_suffix("").parts}
    words = {word for name in names for word in name.lower().strip("_").split("_")}
    assert words & FORBIDDEN_WORDS == set()
    classes = [
        f"{relative(path)}:{node.name}"
        for path in OURS
        for node in ast.walk(parsed_file(path))
        if isinstance(node, ast.ClassDef) and re.search(r"(Manager|Helper|Util|Utils)$", node.name)
    ]
    assert classes == []


def test_each_bound_of_memory_held_for_clients_names_its_tests() -> None:
    rows = [line for line in BOUNDS.read_text().splitlines() if line.startswith("| ")][1:]
    named = {row.split("|")[1]: re.findall(r"`([\w/]+\.py)`", row.split("|")[4]) for row in rows}
    assert len(named) >= 18
    assert [what for what, tests in named.items() if not tests] == []
    assert [one for tests in named.values() for one in tests if not (ROOT / "tests" / "unit" / one).is_file()] == []


SAID_ONCE = ("__consumer_offsets", "__transaction_state", "__cluster_metadata", 0x7FFF)
"""The names of internal topics, and the largest int16, which bounds epochs and strings."""


def test_internal_topic_names_and_the_largest_epoch_are_defined_once() -> None:
    said = [
        node.value.partition("-")[0] if isinstance(node.value, str) else node.value
        for path in OURS
        for node in ast.walk(parsed_file(path))
        if isinstance(node, ast.Constant)
    ]
    assert {value: count for value in SAID_ONCE if (count := said.count(value)) != 1} == {}


def world_readers(path: Path) -> list[str]:
    """Where a file reads clock, randomness or files without going through a port."""
    found = []
    for node in ast.walk(parsed_file(path)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name in WORLD_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in WORLD_MODULES:
            found.append(str(node.module))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in WORLD_CALLS:
            found.append(f"{ast.unparse(node.func)}() in line {node.lineno}")
    return found


def test_only_the_edge_reads_clock_randomness_and_files() -> None:
    beside = ("tallystick/demo/", "tallystick/client/")
    inner = [path for path in OURS if relative(path) not in READS_THE_WORLD and not relative(path).startswith(beside)]
    assert {relative(path): world_readers(path) for path in inner if world_readers(path)} == {}


def imported_modules(path: Path) -> set[str]:
    """Every module of ours that a file imports, in any way, `from package import module` included."""
    found: set[str] = set()
    for node in ast.walk(parsed_file(path)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {f"broker.api.handlers.{node.value}", node.value, f"tallystick.demo.{node.value}"}
    return found


def test_only_the_store_knows_kinds_of_logs() -> None:
    """Everything else of the broker uses `storage.log.Log`, wherever the bytes are kept."""
    kinds = {"storage.segment_log", "storage.segments.segment", "storage.flushing", "storage.memory_log"}
    knowing = {relative(path): imported_modules(path) & kinds for path in python_files("broker")}
    assert {path for path, known in knowing.items() if known} == {
        "broker/partitions/partition_store.py",
        "broker/partitions/offline.py",
    }


def test_no_module_is_dead() -> None:
    """Everything is imported by something that is not a test; but for what is started by name, or is there for
    users.
    """
    used = set().union(*(imported_modules(path) for path in OURS))
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in OURS}
    started_by_name = ("__init__", "__main__")
    offered_to_users = (
        "tallystick.client.",
        "tallystick.pytest_plugin",
        "tallystick.testcontainers",
        "spark_connector.register",
        "spark_connector.sink.foreach_batch",
        "spark_connector.pipelines.",
    )
    dead = [
        name
        for name in modules
        if name not in used and not name.endswith(started_by_name) and not name.startswith(offered_to_users)
    ]
    assert dead == []


def names_used(paths: list[Path]) -> Counter[str]:
    """How often each identifier is read, imported, given as a keyword or spelled as a text."""
    used: Counter[str] = Counter()
    for path in paths:
        for node in ast.walk(parsed_file(path)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                used[node.id] += 1
            elif isinstance(node, ast.Attribute):
                used[node.attr] += 1
            elif isinstance(node, ast.ImportFrom):
                used.update(name.name for name in node.names)
            elif isinstance(node, ast.keyword) and node.arg:
                used[node.arg] += 1
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                used[node.value] += 1
    return used


def defined(path: Path) -> list[str]:
    """Functions, classes, methods and constants of a file but for what a decorator registers."""
    found: list[str] = []
    bodies = [(parsed_file(path).body, True)]
    for body, is_module in bodies:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                plain = ("property", "staticmethod", "classmethod")
                if all(ast.unparse(decorator) in plain for decorator in node.decorator_list):
                    found.append(node.name)
            elif isinstance(node, ast.ClassDef):
                found.append(node.name)
                bodies.append((node.body, False))
            elif is_module and isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found += [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in found if not name.startswith("__")]


def test_no_symbol_is_dead() -> None:
    """What only tests use belongs to them; what nobody uses goes."""
    tables = ("protocol/messages/", "coordinator/cluster/records.py", "coordinator/groups/records.py")
    offered_to_users = (
        "tallystick/",
        "spark_connector/metrics.py",
        "spark_connector/sink/foreach_batch.py",
        "spark_connector/pipelines/",
    )
    beside = (*tables, *offered_to_users)
    used = names_used(OURS)
    dead = [
        f"{relative(path)}: {name}"
        for path in OURS
        if not relative(path).startswith(beside)
        for name in defined(path)
        if not used[name] and name not in CALLED_BY_OTHERS
    ]
    assert dead == []


def test_no_folder_is_a_heap() -> None:
    sizes = Counter(path.parent for path in OURS if path.name != "__init__.py")
    assert {relative(folder): size for folder, size in sizes.items() if size > MAX_FILES_IN_A_FOLDER} == {}


def test_package_heads_are_maps_without_logic() -> None:
    """`tallystick/__init__` alone does something: it finds what users import, lazily."""
    with_logic = []
    for path in OURS:
        if path.name != "__init__.py" or relative(path) in ("tallystick/__init__.py", "tallystick/cli/__init__.py"):
            continue
        tree = parsed_file(path)
        if ast.get_docstring(tree) is None or len(tree.body) != 1:
            with_logic.append(relative(path))
    assert with_logic == []


def test_every_file_of_ours_says_what_it_owns() -> None:
    files = [path for path in EVERYTHING if path in OURS or path.name != "__init__.py"]
    assert [relative(path) for path in files if ast.get_docstring(parsed_file(path)) is None] == []


def test_every_handler_is_described_in_the_catalogue() -> None:
    catalogue = load_handlers()
    assert len(catalogue) > 30
    silent = [entry.name for entry in catalogue.values() if not (entry.handler.__doc__ or "").strip()]
    assert silent == []


def test_the_compatibility_page_is_current() -> None:
    assert compatibility.PAGE.read_text() == compatibility.page(), "run `make docs`"


def test_the_page_of_commands_is_current() -> None:
    assert commands_page.PAGE.read_text() == commands_page.page(), "run `make docs`"


def test_the_table_of_permissions_is_current() -> None:
    assert permissions.TABLE.is_current(), "run `make docs`"


def tracked_files() -> list[Path]:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git work tree")
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    """No home folders, no work folders, no registry hosts."""
    places = re.compile("/" + r"(home|root|work|Users)/\w|" + "--index-" + "url|--trusted-" + "host ")
    found = []
    for path in tracked_files():
        if path.suffix in (".py", ".md", ".txt", ".toml", ".yml", ".xml", ".in", "") and path.name != "Makefile":
            text = path.read_text(errors="replace")
            found += [f"{relative(path)}: {match.group()}" for match in places.finditer(text)]
    assert found == []
