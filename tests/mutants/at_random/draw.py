"""A sample of defects by a seed. Each kind of change has the same share while it lasts.

There are far more arguments than clauses of conditions, and an argument that is left out is noticed far more easily.
"""

import random
from collections import defaultdict
from collections.abc import Collection, Iterator
from types import CodeType

from tests.mutants.at_random.source import PROJECT, Defect, defects, files, text_of
from tests.mutants.mutant import Stale, function_at


def drawn(seed: int, count: int, part: str = "", kinds: Collection[str] = ()) -> list[Defect]:
    """`count` defects, of files with `part` in their path, of all kinds or of these. A larger draw begins with the
    smaller."""
    by_kind = defaultdict(list)
    for room, path in files():
        if part in path:
            for defect in defects(room, path):
                if not kinds or defect.kind in kinds:
                    by_kind[defect.kind].append(defect)
    chosen: list[Defect] = []
    for defect in _in_turns(by_kind, random.Random(seed)):
        if len(chosen) == count:
            break
        if _can_be_planted(defect):
            chosen.append(defect)
    return chosen


def code_with(defect: Defect) -> CodeType:
    """The code of the function with the defect in it. Raises `Stale` where the live function cannot have it."""
    function = function_at(defect.place)
    right = function.__code__
    try:
        module = compile(text_of(defect), str(PROJECT / defect.path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise Stale(f"{defect.name} is no program: {error}") from error
    for code in inner_codes(module):
        if code.co_qualname == right.co_qualname and code.co_firstlineno == right.co_firstlineno:
            if code.co_freevars != right.co_freevars:
                raise Stale(f"{defect.place} is a closure")
            return code
    raise Stale(f"{defect.place} is not in its module")


def _in_turns(by_kind: dict[str, list[Defect]], chance: random.Random) -> Iterator[Defect]:
    kinds = [by_kind[kind] for kind in sorted(by_kind)]
    for one in kinds:
        chance.shuffle(one)
    while kinds := [one for one in kinds if one]:
        for one in kinds:
            yield one.pop()


def _can_be_planted(defect: Defect) -> bool:
    try:
        changed = code_with(defect)
    except Stale:
        return False
    return not _same(changed, function_at(defect.place).__code__)


def _same(one: CodeType, other: CodeType) -> bool:
    """Whether the compiler made the same of both."""
    inner = [[const for const in code.co_consts if isinstance(const, CodeType)] for code in (one, other)]
    plain = [[const for const in code.co_consts if not isinstance(const, CodeType)] for code in (one, other)]
    return (
        (one.co_code, one.co_names, plain[0]) == (other.co_code, other.co_names, plain[1])
        and len(inner[0]) == len(inner[1])
        and all(_same(*pair) for pair in zip(*inner, strict=True))
    )


def inner_codes(code: CodeType) -> Iterator[CodeType]:
    """Of the functions that are made inside, at any depth."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from inner_codes(const)
