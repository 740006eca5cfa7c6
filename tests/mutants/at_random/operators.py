"""What is changed: the operators of mutmut that make wrong programs, and others for mistakes that brokers shipped.

Each yields nodes in the place of one. Not changed: texts, for they are messages to people, and what a type checker
would refuse at once is left out where that is easy to see (an argument that becomes None).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import libcst as cst
import libcst.matchers as m
from mutmut.mutation import mutators

Operator = Callable[[Any], Iterator[cst.CSTNode]]
Replacement = tuple[cst.CSTNode, cst.CSTNode]

_BOUNDARIES: dict[type[cst.CSTNode], type[cst.CSTNode]] = {
    cst.LessThan: cst.GreaterThanEqual,
    cst.LessThanEqual: cst.GreaterThan,
    cst.GreaterThan: cst.LessThanEqual,
    cst.GreaterThanEqual: cst.LessThan,
}
_EXTREMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


def _number_less(node: cst.Integer) -> Iterator[cst.CSTNode]:
    if node.evaluated_value > 0:
        yield cst.Integer(str(node.evaluated_value - 1))


def _opposite_comparison(node: cst.ComparisonTarget) -> Iterator[cst.CSTNode]:
    if opposite := _BOUNDARIES.get(type(node.operator)):
        yield node.with_changes(operator=opposite())


def _operand_dropped(node: cst.BooleanOperation) -> Iterator[cst.CSTNode]:
    yield from (node.left, node.right)


def _other_extreme(node: cst.Call) -> Iterator[cst.CSTNode]:
    if isinstance(node.func, cst.Name) and (other := _EXTREMES.get(node.func.value)):
        yield node.with_changes(func=cst.Name(other))


def _extreme_dropped(node: cst.Call) -> Iterator[cst.CSTNode]:
    if m.matches(node.func, m.Name("min") | m.Name("max")) and len(node.args) > 1:
        yield from (argument.value for argument in node.args if not argument.star and argument.keyword is None)


def _condition(node: cst.If | cst.While) -> Iterator[cst.CSTNode]:
    bracketed = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    yield node.with_changes(test=cst.UnaryOperation(cst.Not(), bracketed))
    if isinstance(node, cst.If):
        for word, operator in (("False", cst.And()), ("True", cst.Or())):
            yield node.with_changes(test=cst.BooleanOperation(bracketed, operator, cst.Name(word)))


def _filter_dropped(node: cst.CompFor) -> Iterator[cst.CSTNode]:
    if node.ifs:
        yield node.with_changes(ifs=node.ifs[1:])


def _handled(node: cst.ExceptHandler) -> Iterator[cst.CSTNode]:
    """What is done about an exception is not done."""
    if not _is_pass(node.body):
        yield node.with_changes(body=cst.IndentedBlock([_PASS]))


def _finally(node: cst.Finally) -> Iterator[cst.CSTNode]:
    yield node.with_changes(body=cst.IndentedBlock([_PASS]))


def _statement_gone(node: cst.SimpleStatementLine) -> Iterator[cst.CSTNode]:
    """A call, or an assignment to an attribute or an element, or a jump, is left out."""
    if len(node.body) == 1 and _does_something(node.body[0]):
        yield _PASS


def _argument_gone(node: cst.Call) -> Iterator[cst.CSTNode]:
    """An argument by keyword is left out: where it has a default, that is taken."""
    for at, argument in enumerate(node.args):
        if argument.keyword is not None and not is_same_length(node, argument):
            rest = [*node.args[:at], *node.args[at + 1 :]]
            if at == len(node.args) - 1 and rest:
                rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            yield node.with_changes(args=rest)


def _arguments_swapped(node: cst.Call) -> Iterator[cst.CSTNode]:
    """Two that stand side by side, by position."""
    if m.matches(node.func, m.Name("min") | m.Name("max")):
        return
    for at, (one, other) in enumerate(zip(node.args, node.args[1:], strict=False)):
        if one.keyword is None and other.keyword is None and not (one.star or other.star):
            swapped = [one.with_changes(value=other.value), other.with_changes(value=one.value)]
            yield node.with_changes(args=[*node.args[:at], *swapped, *node.args[at + 2 :]])


def _statements_swapped(node: cst.IndentedBlock) -> Iterator[cst.CSTNode]:
    """Two neighbours that both do something come in the other order."""
    for at, (one, other) in enumerate(zip(node.body, node.body[1:], strict=False)):
        if all(isinstance(line, cst.SimpleStatementLine) and _does_something(line.body[0]) for line in (one, other)):
            jumps = m.Return() | m.Raise() | m.Break() | m.Continue()
            pair = [cast(cst.SimpleStatementLine, line).body[0] for line in (one, other)]
            if not m.matches(pair[1], jumps) and not _is_any_order(*pair):
                yield node.with_changes(body=[*node.body[:at], other, one, *node.body[at + 2 :]])


def _is_any_order(one: cst.BaseSmallStatement, other: cst.BaseSmallStatement) -> bool:
    """A turn for others; or two assignments to attributes where neither reads what the other writes, and where calls
    have nothing in common that they could change."""
    if any(m.matches(line, _GIVES_WAY) for line in (one, other)):
        return True
    touched = [_touched(line) for line in (one, other)]
    if touched[0] is not None and touched[1] is not None:
        names = [writes | reads for writes, reads in touched]
        return not (touched[0][0] & names[1] or touched[1][0] & names[0])
    if not all(m.matches(line, _ASSIGNS) for line in (one, other)):
        return False
    assignments = [cast(cst.Assign, line) for line in (one, other)]
    written = [cast(cst.Attribute, assignment.targets[0].target) for assignment in assignments]
    values = [assignment.value for assignment in assignments]
    if written[0].attr.value == written[1].attr.value:
        return False
    if any(m.findall(value, m.Call() | m.Await()) for value in values):
        names = [{cast(cst.Name, name).value for name in m.findall(value, m.Name())} for value in values]
        owners = {cast(cst.Name, target.value).value for target in written}
        return not (names[0] & names[1]) and not (owners & (names[0] | names[1]))
    return not any(
        m.findall(value, m.Attribute(attr=m.Name(target.attr.value)))
        for value, target in zip(values, reversed(written), strict=True)
    )


def _touched(statement: cst.BaseSmallStatement) -> tuple[set[str], set[str]] | None:
    """Of a statement that changes one attribute, or what it holds by a method of a container that cannot fail: (the
    name of the attribute, all others that it looks at). None where it may do more: nobody knows what it calls."""
    if m.matches(statement, _CHANGES_A_CONTAINER):
        call = cast(cst.Call, cast(cst.Expr, statement).value)
        method = cast(cst.Attribute, call.func)
        if method.attr.value == "pop" and len(call.args) != 2:
            return None
        target, looked_at = method.value, [argument.value for argument in call.args]
    elif m.matches(statement, m.Assign(targets=[m.AssignTarget()]) | m.AugAssign()):
        assignment = cast("cst.Assign | cst.AugAssign", statement)
        target = assignment.targets[0].target if isinstance(assignment, cst.Assign) else assignment.target
        looked_at = [assignment.value]
    else:
        return None
    while isinstance(target, cst.Subscript):
        looked_at.extend(part.slice for part in target.slice)
        target = target.value
    if not isinstance(target, cst.Attribute) or not m.matches(target.value, m.Name() | m.Attribute(value=m.Name())):
        return None
    looked_at.append(target.value)
    if any(m.findall(one, m.Call() | m.Await() | m.NamedExpr() | m.Lambda()) for one in looked_at):
        return None
    names = {cast(cst.Attribute, found).attr.value for one in looked_at for found in m.findall(one, m.Attribute())}
    return {target.attr.value}, names


def _does_something(statement: cst.BaseSmallStatement) -> bool:
    if isinstance(statement, cst.Expr):
        value = statement.value.expression if isinstance(statement.value, cst.Await) else statement.value
        return isinstance(value, cst.Call) and not is_about_logging(value)
    if isinstance(statement, cst.Assign):
        return isinstance(statement.targets[0].target, cst.Attribute | cst.Subscript)
    return isinstance(statement, cst.AugAssign | cst.Del | cst.Return | cst.Raise | cst.Continue | cst.Break)


def is_about_logging(call: cst.Call) -> bool:
    """A line for people: no test looks at each of them, and none should."""
    return m.matches(call.func, m.Attribute(value=m.Name("_log") | m.Name("log") | m.Attribute(attr=m.Name("_log"))))


def is_same_length(call: cst.Call, argument: cst.Arg) -> bool:
    """`zip(…, strict=True)` is an assertion, and `strict=False` says that there is none."""
    return m.matches(call.func, m.Name("zip")) and m.matches(argument, m.Arg(keyword=m.Name("strict")))


def _is_pass(body: cst.BaseSuite) -> bool:
    return m.matches(body, m.IndentedBlock([m.SimpleStatementLine([m.Pass()])]))


_PASS = cst.SimpleStatementLine([cst.Pass()])
_ASSIGNS = m.Assign(targets=[m.AssignTarget(target=m.Attribute(value=m.Name()))])
_CHANGES_A_CONTAINER = m.Expr(
    m.Call(
        m.Attribute(
            value=m.Attribute() | m.Subscript(),
            attr=m.OneOf(*map(m.Name, ("add", "append", "clear", "discard", "extend", "pop", "setdefault", "update"))),
        )
    )
)
_GIVES_WAY = m.Expr(m.Await(m.Call(m.Attribute(attr=m.Name("give_way") | m.Name("wait_for_turn")))))

KINDS: dict[str, Sequence[tuple[type[cst.CSTNode], Operator]]] = {
    "number": ((cst.Integer, mutators.operator_number), (cst.Integer, _number_less)),
    "truth": ((cst.Name, mutators.operator_name),),
    "arithmetic": (
        (cst.BinaryOperation, mutators.operator_swap_op),
        (cst.AugAssign, mutators.operator_swap_op),
        (cst.AugAssign, mutators.operator_augmented_assignment),
        (cst.Call, _other_extreme),
        (cst.Call, _extreme_dropped),
    ),
    "comparison": (
        (cst.ComparisonTarget, mutators.operator_swap_op),
        (cst.ComparisonTarget, _opposite_comparison),
        (cst.CSTNode, mutators.operator_keywords),
    ),
    "condition": (
        (cst.If, _condition),
        (cst.While, _condition),
        (cst.IfExp, mutators.operator_if_exp),
        (cst.UnaryOperation, mutators.operator_remove_unary_ops),
        (cst.CompFor, _filter_dropped),
        (cst.Match, mutators.operator_match),
    ),
    "operand": (
        (cst.BooleanOperation, _operand_dropped),
        (cst.BooleanOperation, mutators.operator_swap_op),
    ),
    "argument": ((cst.Call, _argument_gone), (cst.Call, _arguments_swapped)),
    "statement": ((cst.SimpleStatementLine, _statement_gone),),
    "order": ((cst.IndentedBlock, _statements_swapped),),
    "exception": ((cst.ExceptHandler, _handled), (cst.Finally, _finally)),
}
"""Kind → (node, what makes others of it)."""


def changes(node: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    """(kind, what may stand in the place of the node)"""
    for kind, operators in KINDS.items():
        for wanted, operator in operators:
            if isinstance(node, wanted):
                for other in operator(node):
                    yield kind, other
