"""Python source as a tree, parsed while no garbage is collected.

A collection in the middle of the parser may end a forgotten task, whose traceback is written to the log, and to mark
the place in a line that parses, too. CPython 3.11 counts the depth of both in one place and ends the outer one with
`SystemError: AST constructor recursion depth mismatch` (python/cpython#106905).
"""

import ast
import gc
from pathlib import Path


def parsed(source: str) -> ast.Module:
    """The tree of a text."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if collects:
            gc.enable()


def parsed_file(path: Path) -> ast.Module:
    """The tree of a file."""
    return parsed(path.read_text())
