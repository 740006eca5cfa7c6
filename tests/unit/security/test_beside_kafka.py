"""What our node answers those who may not do everything, beside what Apache Kafka 4.3.1 answered them.

Its answers are kept beside this file; `python -m tests.unit.security.kafka_door` asks it anew.
"""

import json
from typing import Any

import pytest

from tests.unit.security import acl_requests, api_answers, every_version, random_acls, revoked_rights
from tests.unit.security.door_rig import OwnDoor, behind_the_door

KAFKA_SAYS: dict[str, dict[str, Any]] = json.loads(api_answers.RECORDED.read_text())
NO_REPLICAS = {("Fetch of a replica", "CLUSTER_ACTION of CLUSTER"), ("Fetch of a replica", "all it needs")}
"""There are no replicas here: who may fetch as one reads what others read. Kafka knows none of this id."""
NAMED_TWICE = {("Produce", "13"), ("Produce in a transaction", "13")}
"""Two topics without a name are two of the same id in this version: Kafka answers once for both."""
NO_CONTROLLERS = {("DescribeQuorum", "all it needs")}
"""Voters are reached through the listener that one asks through: there is none for controllers."""
DECLARED = NO_REPLICAS | NAMED_TWICE | NO_CONTROLLERS


def compare(name: str, heard: dict[str, Any], said: dict[str, Any]) -> None:
    assert heard.keys() == said.keys()
    for part, answer in said.items():
        if (name, part) in DECLARED:
            assert heard[part] != answer, f"{part}: no difference any more"
        else:
            assert heard[part] == answer, part


@pytest.fixture(scope="module")
def heard() -> api_answers.Answers:
    return behind_the_door(lambda node: api_answers.answers(OwnDoor(node)))


@pytest.mark.parametrize("name", list(KAFKA_SAYS))
def test_what_is_answered_is_what_kafka_answers(name: str, heard: api_answers.Answers) -> None:
    compare(name, heard[name], KAFKA_SAYS[name])


def test_every_version_refuses_as_kafka_does() -> None:
    said = json.loads(every_version.RECORDED.read_text())
    heard = behind_the_door(lambda node: every_version.answers(OwnDoor(node)))
    assert len(said) > 60
    for name, versions in said.items():
        compare(name, heard[name], versions)


FILTERS_ONLY = ("operation ANY", "pattern_type ANY", "pattern_type MATCH", "permission ANY", "resource_type ANY")
TOLD_OTHERWISE = {f"create {name}" for name in FILTERS_ONLY} | {"delete with filters that mean the same"}
"""Handlers say why."""


def test_acls_are_made_described_and_deleted_as_on_kafka() -> None:
    said = json.loads(acl_requests.RECORDED.read_text())
    heard = behind_the_door(lambda node: acl_requests.answers(OwnDoor(node)))
    assert {name for name in said if heard[name] != said[name]} == TOLD_OTHERWISE


def test_rights_that_are_taken_away_are_missed_where_kafka_misses_them() -> None:
    said = json.loads(revoked_rights.RECORDED.read_text())
    heard = behind_the_door(lambda node: revoked_rights.answers(OwnDoor(node)))
    for name, story in said.items():
        assert heard[name] == story, name
    assert heard.keys() == said.keys()


def test_random_acls_allow_what_kafka_allows() -> None:
    said = json.loads(random_acls.RECORDED.read_text())
    assert behind_the_door(lambda node: random_acls.all_decisions(OwnDoor(node, host="127.0.0.1"))) == said
