"""One request of each API of administrators that are about disks, brokers and metrics of clients."""

from collections.abc import Iterator

from protocol.messages import log_dirs, placement, quorum, telemetry
from tests.unit.security.api_requests import TOPICS
from tests.unit.security.case import Case


def administration() -> Iterator[Case]:
    """All of them."""
    yield from of_log_dirs()
    yield from of_placement()
    yield from of_members()
    yield from of_telemetry()


def of_log_dirs() -> Iterator[Case]:
    yield Case("DescribeLogDirs", 5, lambda _: log_dirs.DescribeLogDirsRequest(topics=[]))
    yield Case(
        "AlterReplicaLogDirs",
        2,
        lambda _: log_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                log_dirs.AlterReplicaLogDir(
                    path=path,
                    topics=[log_dirs.AlterReplicaLogDirTopic(name=name, partitions=[0]) for name in TOPICS],
                )
                for path in ("/no/such", "/nor/that")
            ]
        ),
    )


def of_placement() -> Iterator[Case]:
    wanted = [placement.ElectLeadersRequestTopicPartitions(topic=name, partitions=[0]) for name in TOPICS]
    yield Case("ElectLeaders", 2, lambda _: placement.ElectLeadersRequest(topic_partitions=list(wanted)))
    yield Case("ElectLeaders of all", 2, lambda _: placement.ElectLeadersRequest(topic_partitions=None))
    yield Case(
        "AlterPartitionReassignments",
        1,
        lambda _: placement.AlterPartitionReassignmentsRequest(
            topics=[
                placement.ReassignableTopic(
                    name=name, partitions=[placement.ReassignablePartition(partition_index=0, replicas=[1])]
                )
                for name in TOPICS
            ],
        ),
    )
    yield Case("ListPartitionReassignments", 0, lambda _: placement.ListPartitionReassignmentsRequest())


def of_members() -> Iterator[Case]:
    metadata_log = quorum.DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata",
        partitions=[quorum.DescribeQuorumRequestPartitionData(partition_index=0)],
    )
    yield Case("DescribeQuorum", 2, lambda _: quorum.DescribeQuorumRequest(topics=[metadata_log]))
    yield Case("UnregisterBroker", 0, lambda _: quorum.UnregisterBrokerRequest(broker_id=7))
    voter = {"cluster_id": None, "voter_id": 7, "voter_directory_id": bytes(range(16))}
    listener = quorum.RaftVoterListener(name="CONTROLLER", host="127.0.0.1", port=9)
    yield Case("AddRaftVoter", 1, lambda _: quorum.AddRaftVoterRequest(timeout_ms=1000, listeners=[listener], **voter))
    yield Case("RemoveRaftVoter", 0, lambda _: quorum.RemoveRaftVoterRequest(**voter))


def of_telemetry() -> Iterator[Case]:
    yield Case(
        "GetTelemetrySubscriptions",
        0,
        lambda _: telemetry.GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16)),
    )
    yield Case(
        "PushTelemetry",
        0,
        lambda _: telemetry.PushTelemetryRequest(
            client_instance_id=bytes(16), subscription_id=0, terminating=False, compression_type=0, metrics=b""
        ),
    )
