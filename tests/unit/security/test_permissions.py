"""Each API asked without rights, with wrong ones, with each of the right ones, with all: it answers as it declares."""

from typing import Any, NamedTuple

import pytest

from broker.api.api_families import load_handlers
from broker.api.permissions.need import Need, Permissions
from protocol.acls import Operation, ResourceType
from tests.unit.security.api_answers import AUTHORIZATION, TOLD, Answers, answers, needs_of
from tests.unit.security.api_cases import CASES
from tests.unit.security.case import Case
from tests.unit.security.door_rig import OwnDoor, behind_the_door

DENIED = {error.name for error in AUTHORIZATION}
NOT_ASKED = "CreateTopics twice"
"""What is wrong in another way is said to everybody."""

Question = tuple[Operation, ResourceType]


class Heard(NamedTuple):
    """What was answered in each case, and what each API asked the authorizer for."""

    answers: Answers
    questions: dict[str, set[Question]]


@pytest.fixture(scope="module")
def heard() -> Heard:
    questions: dict[str, set[Question]] = {}
    have, have_with_some = Permissions.have, Permissions.have_with_some

    def note(permissions: Permissions, need: Need) -> None:
        questions.setdefault(permissions._request, set()).add((need.operation, need.resource))

    def noted(self: Permissions, need: Need, *name: str, quietly: bool = False) -> bool:
        note(self, need)
        return have(self, need, *name, quietly=quietly)

    def noted_with_some(self: Permissions, need: Need) -> bool:
        note(self, need)
        return have_with_some(self, need)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Permissions, "have", noted)
        patched.setattr(Permissions, "have_with_some", noted_with_some)
        return Heard(behind_the_door(lambda node: answers(OwnDoor(node))), questions)


def codes(told: Any) -> set[str]:
    """Every error code in what was told."""
    if isinstance(told, dict):
        own = {value for name, value in told.items() if name.endswith("error_code")}
        return own.union(*(codes(value) for value in told.values()))
    return set().union(*map(codes, told)) if isinstance(told, list) else set()


def without_operations(told: Any) -> Any:
    if isinstance(told, dict):
        return {name: without_operations(value) for name, value in told.items() if name not in TOLD}
    return list(map(without_operations, told)) if isinstance(told, list) else told


def test_every_api_has_a_case() -> None:
    asked = {type(case.make(bytes(16))) for case in CASES}
    assert {entry.name for entry in load_handlers().values() if entry.request not in asked} == set()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_wrong_rights_are_none_and_right_ones_are_enough(case: Case, heard: Heard) -> None:
    found = heard.answers[case.name]
    errors = {need.error.name for need in needs_of(case) if need.error is not None}
    for rights in ("nothing", "everything else"):
        assert without_operations(found[rights]) == without_operations(found["nothing"])
        assert codes(found[rights]) & DENIED <= errors
    if "all it needs" in found and case.name != NOT_ASKED:
        assert not codes(found["all it needs"]) & DENIED
        assert found["nothing"] != found["all it needs"]


def test_what_is_declared_is_what_is_asked_for(heard: Heard) -> None:
    declared = {
        entry.name: {(need.operation, need.resource) for need in entry.guard.needs}
        for entry in load_handlers().values()
    }
    assert {name: needs for name, needs in declared.items() if needs} == heard.questions


def said_of(told: Any, name: str) -> list[Any]:
    """What stands beside this name, wherever it is."""
    if isinstance(told, list):
        return [found for part in told for found in said_of(part, name)]
    if not isinstance(told, dict):
        return []
    own = [{key: value for key, value in told.items() if value != name}] if name in told.values() else []
    return own + [found for value in told.values() for found in said_of(value, name)]


def test_what_may_not_be_described_looks_like_what_is_not_there(heard: Heard) -> None:
    compared = 0
    for answer in heard.answers.values():
        there, absent = said_of(answer["nothing"], "t"), said_of(answer["nothing"], "absent")
        if there and absent:
            assert there == absent
            compared += 1
    assert compared > 10
