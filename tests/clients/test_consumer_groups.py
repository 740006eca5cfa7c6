"""Groups of the consumer protocol (KIP-848) with librdkafka and with Java's client: who comes, shares, and goes."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient

from tallystick.process import BrokerProcess
from tests.clients.test_groups import Member, shared_out
from tests.harness.confluent import SECONDS, make_topic, wait_until, write

QUICK = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture
def quick(own_broker: Callable[..., BrokerProcess]) -> str:
    """A broker that asks for heartbeats often."""
    return own_broker(more=QUICK).start().bootstrap


def group_of(bootstrap: str, group: str) -> object:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return admin.describe_consumer_groups([group])[group].result(SECONDS)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_three_members_of_the_consumer_protocol_come_and_go(quick: str, name: str, assignor: str) -> None:
    make_topic(quick, name, 6)
    members = [ConsumerMember(quick, name, name, assignor)]
    wait_until(shared_out(members, 6), "one member owns all")
    for _ in range(2):
        members.append(ConsumerMember(quick, name, name, assignor))
    wait_until(shared_out(members, 6, each=2), "three members share")
    sent = [f"{number}".encode() for number in range(120)]
    write(quick, name, sent)
    wait_until(
        lambda: sorted(value for member in members for value in member.values) == sorted(sent), "every record, once"
    )
    group = group_of(quick, name)
    assert (group.state, group.type, group.partition_assignor) == (  # type: ignore[attr-defined]
        ConsumerGroupState.STABLE,
        ConsumerGroupType.CONSUMER,
        assignor,
    )
    members.pop(0).leave()
    wait_until(shared_out(members, 6), "two members share")
    for member in members:
        member.leave()


def test_a_subscription_by_regular_expression_follows_the_topics(quick: str, name: str) -> None:
    make_topic(quick, f"{name}-1", 2)
    member = ConsumerMember(quick, name, f"^{name}-.*", "uniform")
    wait_until(lambda: len(member.owned) == 2, "the partitions of the topic that is there")
    make_topic(quick, f"{name}-2", 3)
    wait_until(lambda: len(member.owned) == 3, "those of the topic that came, too")
    member.leave()


def test_a_group_moves_between_the_protocols_while_its_members_work(quick: str, name: str) -> None:
    make_topic(quick, name, 6)
    classic = Member(quick, name, name, partition__assignment__strategy="cooperative-sticky")
    wait_until(shared_out([classic], 6), "the classic member owns all")
    member = ConsumerMember(quick, name, name, "uniform")
    wait_until(shared_out([classic, member], 6), "the two share")
    assert group_of(quick, name).type == ConsumerGroupType.CONSUMER  # type: ignore[attr-defined]
    member.leave()
    wait_until(shared_out([classic], 6), "the classic member owns all again")
    assert group_of(quick, name).type == ConsumerGroupType.CLASSIC  # type: ignore[attr-defined]
    classic.leave()


def test_a_consumer_group_goes_on_after_a_kill(own_broker: Callable[..., BrokerProcess], name: str) -> None:
    broker = own_broker(more=QUICK)
    bootstrap = broker.start().bootstrap
    make_topic(bootstrap, name, 6)
    members = [ConsumerMember(bootstrap, name, name, "uniform") for _ in range(2)]
    wait_until(shared_out(members, 6), "two members share")
    assigned = [member.assigned_times for member in members]
    broker.kill()
    broker.start()
    sent = [f"{number}".encode() for number in range(60)]
    write(bootstrap, name, sent)
    wait_until(
        lambda: sorted(value for member in members for value in member.values) == sorted(sent), "every record, once"
    )
    assert [member.assigned_times for member in members] == assigned, "nobody had to give anything back"
    for member in members:
        member.leave()


class ConsumerMember(Member):
    """A member that speaks the consumer protocol. Its coordinator says how often it sends heartbeats."""

    TIMES: Mapping[str, int] = MappingProxyType({})

    def __init__(self, bootstrap: str, group: str, topic: str, assignor: str) -> None:
        super().__init__(bootstrap, group, topic, group__protocol="consumer", group__remote__assignor=assignor)
