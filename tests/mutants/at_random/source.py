"""Every place where a change can be made: functions of the code that carries the promises, in a fixed order."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider

from tests.mutants.at_random.operators import changes, is_about_logging, is_same_length

PROJECT = Path(__file__).resolve().parents[3]
ROOMS: dict[str, Sequence[str]] = {
    "transactions": (
        "coordinator/transactions",
        "broker/coordination/transaction_gate.py",
        "broker/coordination/transactions.py",
        "broker/coordination/marker_writer.py",
        "broker/coordination/promises.py",
        "broker/coordination/producer_ids.py",
        "broker/api/handlers/transactions.py",
        "broker/api/handlers/transaction_inspection.py",
        "broker/api/handlers/transaction_markers.py",
    ),
    "partition state": ("broker/partitions", "storage/producers", "broker/disk/group_commit.py"),
    "groups": (
        "coordinator/groups",
        "broker/coordination/groups.py",
        "broker/coordination/forgotten_offsets.py",
        "broker/api/handlers/groups.py",
        "broker/api/handlers/consumer_groups.py",
        "broker/api/handlers/group_administration.py",
        "broker/api/handlers/group_offsets.py",
        "broker/api/handlers/offset_fetch.py",
    ),
    "produce, fetch and offsets": (
        "broker/api/handlers/produce.py",
        "broker/api/handlers/produce_appends.py",
        "broker/api/fetching/fetch_attempt.py",
        "broker/api/handlers/fetch.py",
        "broker/api/fetching/fetched_partitions.py",
        "broker/api/handlers/offsets.py",
        "broker/api/fetching/fetch_session.py",
        "broker/api/fetching/fetch_sessions.py",
        "broker/api/waiting.py",
    ),
    "the door": (
        "broker/security",
        "keystores",
        "broker/api/permissions",
        "broker/coordination/access/acls.py",
        "broker/coordination/access/first_users.py",
        "broker/coordination/access/followed_quotas.py",
        "broker/api/handlers/acls.py",
        "broker/api/handlers/client_quotas.py",
        "broker/api/handlers/identity",
    ),
    "cluster": ("coordinator/cluster", "broker/coordination/topics.py", "broker/coordination/cluster.py"),
    "runtime of coordinators": ("coordinator", "broker/coordination"),
    "log storage": ("storage",),
}
"""The groups of the score → files and folders. A file is of the first room that has it."""


@dataclass(frozen=True, slots=True)
class Defect:
    """One change of one file."""

    room: str
    path: str
    function: str
    """As `__qualname__` has it."""
    first_line: int
    """Of the function, decorators included."""
    line: int
    kind: str
    number: int
    """Among all of this file: with the path and the text of the file it names the defect."""
    before: str
    after: str

    @property
    def place(self) -> str:
        return f"{self.path.removesuffix('.py').replace('/', '.')}:{self.function}"

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line} {self.kind} {self.number}"


@dataclass(frozen=True, slots=True)
class _Change:
    old: cst.CSTNode
    new: cst.CSTNode
    defect: Defect


def files() -> Iterator[tuple[str, str]]:
    """(room, path)"""
    known: set[Path] = set()
    for room, places in ROOMS.items():
        for place in places:
            whole = PROJECT / place
            for path in sorted(whole.rglob("*.py")) if whole.is_dir() else [whole]:
                if path.name != "__init__.py" and path not in known:
                    known.add(path)
                    yield room, str(path.relative_to(PROJECT))


def defects(room: str, path: str) -> list[Defect]:
    """All of one file."""
    return [change.defect for change in _changes(room, path)[1]]


def text_of(defect: Defect) -> str:
    """The file with the defect in it."""
    module, found = _changes(defect.room, defect.path)
    change = found[defect.number]
    assert change.defect == defect, "the file has changed since the draw"
    changed = module.deep_replace(change.old, change.new)  # type: ignore[arg-type]
    assert isinstance(changed, cst.Module)
    return changed.code


@functools.cache
def _changes(room: str, path: str) -> tuple[cst.Module, list[_Change]]:
    wrapper = MetadataWrapper(cst.parse_module((PROJECT / path).read_text()))
    finder = _Finder(room, path, wrapper.module)
    wrapper.visit(finder)
    return wrapper.module, finder.found


class _Finder(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, room: str, path: str, module: cst.Module) -> None:
        super().__init__()
        self.found: list[_Change] = []
        self._room = room
        self._path = path
        self._module = module
        self._names: list[str] = []
        self._functions: list[tuple[str, int]] = []
        """The outermost one, and those inside it."""
        self._assertions: set[cst.CSTNode] = set()

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._names.append(node.name.value)

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self._names.pop()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        first = node.decorators[0] if node.decorators else node
        name = ".".join([*self._names, node.name.value])
        self._functions.append((name, self._line(first)))
        node.body.visit(self)  # neither defaults nor annotations
        self._functions.pop()
        return False

    def visit_Annotation(self, node: cst.Annotation) -> bool:
        return False

    def visit_Assert(self, node: cst.Assert) -> bool:
        """An assertion is a test itself; without it nothing is wrong."""
        return False

    def visit_Call(self, node: cst.Call) -> bool:
        self._assertions.update(argument.value for argument in node.args if is_same_length(node, argument))
        return not is_about_logging(node)

    def on_visit(self, node: cst.CSTNode) -> bool:
        if self._functions and node not in self._assertions and not m.matches(node, m.Assert() | m.Annotation()):
            name, first_line = self._functions[0]
            for kind, new in changes(node):
                line, number = self._line(_where(node, new)), len(self.found)
                before, after = (_shown(self._module, one) for one in (node, new))
                defect = Defect(self._room, self._path, name, first_line, line, kind, number, before, after)
                self.found.append(_Change(node, new, defect))
        return super().on_visit(node)

    def _line(self, node: cst.CSTNode) -> int:
        line: int = self.get_metadata(PositionProvider, node).start.line
        return line


def _where(node: cst.CSTNode, new: cst.CSTNode) -> cst.CSTNode:
    """What stands where the change is: a block may begin with its docstring, and no test is known to reach that, nor
    the word `finally`."""
    if isinstance(node, cst.IndentedBlock) and isinstance(new, cst.IndentedBlock):
        return next(one for one, other in zip(node.body, new.body, strict=True) if one is not other)
    return node.body.body[0] if isinstance(node, cst.Finally) else node


def _shown(module: cst.Module, node: cst.CSTNode) -> str:
    return module.code_for_node(node).strip()
