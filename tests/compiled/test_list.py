"""What is said of the list of compiled modules holds, without a compiler."""

import ast
import enum
import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.compiled.tree import modules
from tests.harness.source_tree import ROOT

PACKAGES = ("protocol", "storage", "coordinator", "broker")


def test_all_of_them_are_there_once_and_in_order() -> None:
    listed = modules()
    assert listed == sorted(set(listed), key=lambda name: (PACKAGES.index(name.partition(".")[0]), name))
    assert [name for name in listed if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []


def test_no_class_that_is_interpreted_inherits_from_a_compiled_one() -> None:
    """To make one raises `TypeError`, when it is made: nothing says so before."""
    listed = {*modules()}
    for found in {one for one in _classes() if one.__module__ not in listed}:
        compiled = [base for base in found.__mro__ if base.__module__ in listed and not _may_be_inherited(base)]
        assert not compiled, f"{found.__module__}.{found.__name__} inherits from {compiled}"


def test_the_name_of_an_exception_is_of_nothing_else_in_its_function() -> None:
    """It has the type of the first that has the name, and what is of another raises `TypeError` in its place."""
    for module, function in _functions():
        kinds: dict[str, set[str]] = defaultdict(set)
        bound = {
            node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for handler in ast.walk(function):
            if isinstance(handler, ast.ExceptHandler) and handler.name and handler.type is not None:
                kinds[handler.name].add(ast.unparse(handler.type))
        several = {name: of for name, of in kinds.items() if len(of) > 1 or name in bound}
        assert not several, f"{module}, {function.name}: {several}"


def test_what_is_handed_on_to_a_base_class_is_named() -> None:
    """`super().__init__(**known)` gives the dictionary as the first argument."""
    for module, function in _functions():
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("super()."):
                starred = [one for one in call.args if isinstance(one, ast.Starred)]
                unnamed = [one for one in call.keywords if one.arg is None]
                assert not starred and not unnamed, f"{module}, {function.name}: {ast.unparse(call)}"


def _functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for module in modules():
        for node in ast.walk(ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield module, node


def _may_be_inherited(base: type) -> bool:
    """What is no native class, even if its module is compiled; and exceptions."""
    return issubclass(base, enum.Enum | BaseException | tuple) or getattr(base, "_is_protocol", False)


def _classes() -> Iterator[type]:
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if module.name.endswith("__main__"):
                continue
            try:
                names = vars(importlib.import_module(module.name))
            except ImportError as missing:  # An extra that is not installed.
                if (missing.name or "").partition(".")[0] in PACKAGES:
                    pytest.fail(str(missing))
                continue
            yield from (one for one in names.values() if isinstance(one, type))
