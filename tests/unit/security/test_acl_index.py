"""The authorizer against a slow model of Kafka's StandardAuthorizer, over ACLs that come and go."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.security import acl_index
from broker.security.acl_index import AclIndex
from broker.security.authorizer import Authorizer
from protocol.acls import Acl, Operation, PatternType, Permission, ResourceType
from tests.unit.security.acl_model import AclModel

NAMES = st.text("ab.*", min_size=1, max_size=4)
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice")
HOSTS = ("10.0.0.1", "10.0.0.2")
KINDS = (ResourceType.TOPIC, ResourceType.GROUP)
ASKED = tuple(one for one in Operation if one > Operation.ALL)

acls = st.builds(
    Acl,
    resource_type=st.sampled_from(KINDS),
    resource_name=NAMES,
    pattern_type=st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from((*HOSTS, "*", "*")),
    operation=st.sampled_from((Operation.ALL, Operation.READ, Operation.WRITE, Operation.ALTER_CONFIGS, *ASKED)),
    permission=st.sampled_from((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
)
questions = st.tuples(
    st.sampled_from(PRINCIPALS), st.sampled_from(HOSTS), st.sampled_from(ASKED), st.sampled_from(KINDS), NAMES
)
steps = st.lists(st.one_of(acls, questions, st.integers(0, 50)), max_size=40)


@settings(max_examples=200, deadline=None)
@given(steps, st.booleans(), NAMES)
def test_every_answer_is_that_of_the_model(taken: list[object], allow_if_none: bool, name: str) -> None:
    model = AclModel({"User:root"}, allow_if_none)
    authorizer = Authorizer(["User:root"], allow_if_none=allow_if_none)
    for step in taken:
        if isinstance(step, Acl):
            if step not in model.acls:  # as the metadata log has it: no ACL is there twice
                model.acls.append(step)
                authorizer.add(step)
        elif isinstance(step, tuple):
            assert authorizer.may(*step) == model.may(*step), step
        elif model.acls:
            assert isinstance(step, int)
            authorizer.remove(model.acls.pop(step % len(model.acls)))
    for principal, host in product((*PRINCIPALS, "User:root"), HOSTS):
        for operation, kind in product(ASKED, KINDS):
            asked_of = [name, *(acl.resource_name for acl in model.acls[-3:])]
            for one in (*asked_of, asked_of[-1] + "a"):
                question = (principal, host, operation, kind, one)
                assert authorizer.may(*question) == model.may(*question), question
        asked = (principal, host, Operation.WRITE, ResourceType.TOPIC)
        assert authorizer.may_with_some(*asked) == model.may_with_some(*asked), asked


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_index, "MOST_REMEMBERED", 100)
    index = AclIndex()
    index.add(Acl(ResourceType.TOPIC, "t", PatternType.PREFIXED, "User:*", "*", Operation.WRITE, Permission.ALLOW))

    def held() -> int:
        return len(index._views) + sum(len(view.answers) for view in index._views.values())

    def ask(principal: str, name: str) -> int:
        assert index.decide(principal, "10.0.0.1", Operation.WRITE, ResourceType.TOPIC, name).allowed
        return held()

    for most in (
        [ask("User:one", f"t{number}") for number in range(1000)],
        [ask(f"User:{number}", "t") for number in range(1000)],
        [ask(f"User:{number}", f"t{number}") for number in range(1000)],
    ):
        assert max(most) <= 100 and max(most[500:]) > 90, "forgotten when that much is remembered, and not before"
    index.add(Acl(ResourceType.TOPIC, "u", PatternType.PREFIXED, "User:*", "*", Operation.WRITE, Permission.ALLOW))
    assert ask("User:one", "t") == 2, "a view and an answer"
    assert ask("User:one", "t" * 1000) == ask("User:" + "x" * 1000, "t") == 2, "nothing of what is so long"


@pytest.mark.parametrize("written", ["::1", "0:0:0:0:0:0:0:1", "0000::0001"])
def test_an_address_may_be_written_in_more_than_one_way(written: str) -> None:
    authorizer = Authorizer()
    for host, permission in (("*", Permission.ALLOW), (written, Permission.DENY), ("10.0.0.1", Permission.DENY)):
        authorizer.add(Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:*", host, Operation.WRITE, permission))

    def may(host: str) -> bool:
        return authorizer.may("User:alice", host, Operation.WRITE, ResourceType.TOPIC, "t")

    assert not may("::1") and not may("0:0:0:0:0:0:0:1")
    assert not may("10.0.0.1") and not may("::ffff:10.0.0.1")
    assert may("::2") and may("10.0.0.2")
    authorizer.remove(Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:*", written, 4, Permission.DENY))
    assert may("::1")


def test_a_name_between_two_prefixes_of_a_chain_is_found() -> None:
    authorizer = Authorizer()
    for prefix in ("orders.", "orders.eu.archive", "orders.eu.b", "p"):
        authorizer.add(
            Acl(ResourceType.TOPIC, prefix, PatternType.PREFIXED, "User:alice", "*", Operation.READ, Permission.ALLOW)
        )
    asked = ("User:alice", "10.0.0.1", Operation.READ, ResourceType.TOPIC)
    assert authorizer.may(*asked, "orders.eu.books")
    assert authorizer.may(*asked, "orders.eu.c")
    assert not authorizer.may(*asked, "order")


def pattern(name: str, permission: Permission, kind: PatternType = PatternType.PREFIXED) -> Acl:
    return Acl(ResourceType.TOPIC, name, kind, "User:a", "*", Operation.WRITE, permission)


def test_of_prefixes_the_shortest_of_each_kind_counts() -> None:
    index = AclIndex()
    for prefix in ("bc", "a", "b"):
        index.add(pattern(prefix, Permission.ALLOW))
    allowed = [
        name
        for name in ("", "A", "a", "ab", "b", "bb", "bcd", "bd", "c")
        if index.decide("User:a", "h", Operation.WRITE, ResourceType.TOPIC, name).allowed
    ]
    assert allowed == ["a", "ab", "b", "bb", "bcd", "bd"]


def test_a_right_for_names_that_are_all_denied_is_none() -> None:
    index = AclIndex()

    def some() -> bool:
        return index.allows_some("User:a", "h", Operation.WRITE, ResourceType.TOPIC)

    index.add(pattern("a", Permission.DENY))
    for name, kind in (("ab", PatternType.LITERAL), ("ax", PatternType.PREFIXED)):
        index.add(pattern(name, Permission.ALLOW, kind))
        assert not some()
    index.add(pattern("c", Permission.DENY))
    index.add(pattern("cd", Permission.ALLOW, PatternType.LITERAL))
    assert not some()
    index.add(pattern("b", Permission.ALLOW, PatternType.LITERAL))
    assert some()
    index.add(pattern("b", Permission.DENY, PatternType.LITERAL))
    assert not some()
    index.add(pattern("A", Permission.ALLOW))
    assert some()
