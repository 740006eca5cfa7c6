"""Fetch sessions (KIP-227), every rule of them."""

import itertools

import pytest

from broker.api.fetch_sessions import FetchSessions, FetchView
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from storage.steps import Steps, finish

TOPIC_ID = bytes(range(16))


class Client:
    """Speaks the session protocol towards a cache, with a clock of its own."""

    def __init__(
        self, *, slots: int = 10, eviction_ms: int = 1000, version: int = 12, most_partitions: int = 1000
    ) -> None:
        ids = itertools.count(1)
        self.sessions = FetchSessions(
            draw_id=lambda: next(ids),
            slots=lambda: slots,
            eviction_ms=lambda: eviction_ms,
            most_partitions=lambda: most_partitions,
        )
        self.connection_id = 1
        self.principal = "User:alice"
        self.now_ms = 0
        self.version = version

    def fetch(
        self, session_id: int, epoch: int, offsets: dict[int, int], forgotten: tuple[int, ...] = (), version: int = 0
    ) -> FetchView:
        request = self.request(session_id, epoch, offsets, forgotten)
        return self.sessions.view(request, version or self.version, self.now_ms, self.connection_id, self.principal)

    def steps(
        self, session_id: int, epoch: int, offsets: dict[int, int], forgotten: tuple[int, ...] = ()
    ) -> Steps[FetchView]:
        """The same one change at a time."""
        request = self.request(session_id, epoch, offsets, forgotten)
        return self.sessions.viewing(
            request, self.version, self.now_ms, self.connection_id, lambda: True, self.principal
        )

    @staticmethod
    def request(session_id: int, epoch: int, offsets: dict[int, int], forgotten: tuple[int, ...] = ()) -> FetchRequest:
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=100)
            for index, offset in offsets.items()
        ]
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=session_id,
            session_epoch=epoch,
            topics=[FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=partitions)] if offsets else [],
            forgotten_topics_data=[ForgottenTopic(topic="t", topic_id=TOPIC_ID, partitions=list(forgotten))],
        )


def offsets(view: FetchView) -> dict[int, int]:
    return {wanted.index: wanted.fetch_offset for wanted in view.wanted}


@pytest.mark.parametrize("version", [12, 13])
def test_a_session_remembers_what_was_asked_and_takes_changes(version: int) -> None:
    client = Client(version=version)
    first = client.fetch(0, 0, {0: 10, 1: 20})
    assert first.session_id != 0 and not first.incremental
    second = client.fetch(first.session_id, 1, {})
    assert second.incremental and offsets(second) == {0: 10, 1: 20}
    assert offsets(client.fetch(first.session_id, 2, {1: 25, 2: 0})) == {0: 10, 1: 25, 2: 0}
    assert offsets(client.fetch(first.session_id, 3, {}, forgotten=(0, 2))) == {1: 25}


def test_a_fetch_without_session_leaves_nothing_behind() -> None:
    client = Client()
    view = client.fetch(0, -1, {0: 10})
    assert view.session_id == 0 and offsets(view) == {0: 10}
    assert len(client.sessions) == 0


def test_an_unknown_session_is_an_error_of_the_whole_fetch() -> None:
    assert Client().fetch(77, 1, {}).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("connection_id", [1, 2])
def test_a_session_is_that_of_its_principal_on_any_connection(connection_id: int) -> None:
    """Its id can be guessed; what is answered in it names topics."""
    client = Client()
    session_id = client.fetch(0, 0, {0: 10}).session_id
    client.connection_id, client.principal = connection_id, "User:bob"
    assert client.fetch(session_id, 1, {}).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch(session_id, -1, {}).error is ErrorCode.NONE
    assert client.fetch(session_id, 0, {0: 10}).session_id != session_id
    client.principal = "User:alice"
    assert offsets(client.fetch(session_id, 1, {})) == {0: 10}


def test_a_wrong_epoch_fails_and_keeps_the_session() -> None:
    client = Client()
    session_id = client.fetch(0, 0, {0: 10}).session_id
    assert client.fetch(session_id, 5, {}).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert client.fetch(session_id, 1, {}).error is ErrorCode.NONE
    assert client.fetch(session_id, 1, {}).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_names_and_topic_ids_do_not_mix_in_one_session() -> None:
    client = Client()
    session_id = client.fetch(0, 0, {0: 10}, version=12).session_id
    assert client.fetch(session_id, 1, {}, version=13).error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_final_epoch_ends_a_session() -> None:
    client = Client()
    session_id = client.fetch(0, 0, {0: 10}).session_id
    assert client.fetch(session_id, -1, {0: 10}).session_id == 0
    assert client.fetch(session_id, 1, {}).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_new_session_replaces_the_clients_old_one() -> None:
    client = Client()
    session_id = client.fetch(0, 0, {0: 10}).session_id
    assert client.fetch(session_id, 0, {0: 11}).session_id not in (0, session_id)
    assert len(client.sessions) == 1


def test_forgetting_the_last_partition_ends_the_session() -> None:
    client = Client()
    session_id = client.fetch(0, 0, {0: 10}).session_id
    view = client.fetch(session_id, 1, {}, forgotten=(0,))
    assert view.session_id == 0 and view.error is ErrorCode.NONE
    assert len(client.sessions) == 0


def test_the_epoch_wraps_to_one() -> None:
    client = Client()
    view = client.fetch(0, 0, {0: 10})
    assert view.session is not None
    view.session.epoch = 0x7FFFFFFF
    assert client.fetch(view.session_id, 0x7FFFFFFF, {}).error is ErrorCode.NONE
    assert client.fetch(view.session_id, 1, {}).error is ErrorCode.NONE


def test_a_full_cache_refuses_sessions_until_one_expires() -> None:
    client = Client(slots=2)
    old, young = client.fetch(0, 0, {0: 1}), client.fetch(0, 0, {0: 2})
    assert client.fetch(0, 0, {0: 3}).session_id == 0
    client.now_ms = 1500
    client.fetch(young.session_id, 1, {})
    assert client.fetch(0, 0, {0: 3}).session_id != 0
    assert client.fetch(old.session_id, 1, {}).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch(young.session_id, 2, {}).error is ErrorCode.NONE


def test_with_no_slots_there_are_no_sessions() -> None:
    assert Client(slots=0).fetch(0, 0, {0: 1}).session_id == 0


def test_partitions_that_had_records_go_behind_those_that_had_none() -> None:
    client = Client()
    view = client.fetch(0, 0, {0: 1, 1: 1, 2: 1})
    assert view.session is not None
    view.session.had_records(view.wanted[0])
    assert list(offsets(client.fetch(view.session_id, 1, {}))) == [1, 2, 0]


def test_all_sessions_together_remember_so_many_partitions() -> None:
    client = Client(most_partitions=100)
    first = client.fetch(0, 0, dict.fromkeys(range(60), 0))
    second = client.fetch(0, 0, dict.fromkeys(range(60), 0))
    assert first.session_id and not second.session_id, "it asks in full each time"
    assert len(second.wanted) == 60
    client.now_ms += 1001
    assert client.fetch(0, 0, dict.fromkeys(range(60), 0)).session_id, "the first was silent for long"
    assert client.sessions.partitions == 60
    assert not client.fetch(0, 0, dict.fromkeys(range(101), 0)).session_id


def test_a_session_that_grows_beyond_the_bound_ends() -> None:
    client = Client(most_partitions=100)
    first = client.fetch(0, 0, {0: 0})
    grown = client.fetch(first.session_id, 1, dict.fromkeys(range(200), 0))
    assert grown.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(client.sessions), client.sessions.partitions) == (0, 0)


def test_partitions_are_counted_through_all_that_may_happen() -> None:
    client = Client()
    first = client.fetch(0, 0, {0: 0, 1: 0})
    client.fetch(first.session_id, 1, {2: 0}, forgotten=(0,))
    assert client.sessions.partitions == 2
    client.fetch(first.session_id, 2, {}, forgotten=(1, 2))
    assert (len(client.sessions), client.sessions.partitions) == (0, 0)


def test_sessions_end_with_the_connection_that_used_them_last() -> None:
    client = Client()
    first, second = client.fetch(0, 0, {0: 0}), client.fetch(0, 0, {0: 0})
    client.connection_id = 2
    client.fetch(second.session_id, 1, {})
    client.sessions.connection_closed(1)
    assert client.fetch(first.session_id, 1, {}).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not client.fetch(second.session_id, 2, {}).error
    client.sessions.connection_closed(2)
    assert (len(client.sessions), client.sessions.partitions, client.sessions._of_connection) == (0, 0, {})


def test_many_partitions_are_named_and_forgotten_in_steps() -> None:
    client = Client()
    created = list(client.steps(0, 0, dict.fromkeys(range(50), 0)))
    assert len(created) == 50
    (session_id,) = client.sessions._sessions
    changed = list(client.steps(session_id, 1, dict.fromkeys(range(100), 1), forgotten=tuple(range(40))))
    assert len(changed) >= 100 + 140
    assert offsets(client.fetch(session_id, 2, {})) == dict.fromkeys(range(40, 100), 1)
    assert client.sessions.partitions == 60


@pytest.mark.parametrize("steps", [1, 6, 11])
def test_a_session_may_end_between_two_steps(steps: int) -> None:
    client = Client()
    session_id = client.fetch(0, 0, {0: 0}).session_id
    work = client.steps(session_id, 1, dict.fromkeys(range(5), 0), forgotten=(0, 1))
    for _ in range(steps):
        next(work)
    client.sessions.connection_closed(1)
    assert finish(work).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(client.sessions), client.sessions.partitions) == (0, 0)


def test_a_fetch_that_is_given_up_between_two_steps_leaves_its_session_counted() -> None:
    client = Client()
    session_id = client.fetch(0, 0, {0: 0}).session_id
    work = client.steps(session_id, 1, dict.fromkeys(range(9), 0))
    for _ in range(14):
        next(work)
    work.close()
    assert client.sessions.partitions == 5
    assert client.fetch(session_id, 2, {}, forgotten=tuple(range(5))).session_id == 0
    assert (len(client.sessions), client.sessions.partitions) == (0, 0)
