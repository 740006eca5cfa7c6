"""Fetch sessions (KIP-227), every rule of them."""

import itertools

import pytest

from broker.api.fetching.fetch_sessions import FetchSessions, FetchView
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
    return {wanted.index: wanted.fetch_offset for wanted in view.due()}


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


def test_a_session_has_its_place_for_as_long_as_it_is_used() -> None:
    client = Client(slots=1)
    client.now_ms = 5000
    assert client.fetch(0, 0, {0: 1}).session_id == 1
    client.now_ms = 6000
    assert client.fetch(0, 0, {0: 1}).session_id == 0
    client.now_ms = 6001
    assert client.fetch(0, 0, {0: 1}).session_id == 2


def test_with_no_slots_there_are_no_sessions() -> None:
    assert Client(slots=0).fetch(0, 0, {0: 1}).session_id == 0


def test_partitions_that_had_records_go_behind_those_that_had_none() -> None:
    client = Client()
    view = client.fetch(0, 0, {0: 1, 1: 1, 2: 1})
    assert view.session is not None
    view.session.had_records(view.due()[0])
    assert list(offsets(client.fetch(view.session_id, 1, {}))) == [1, 2, 0]


def test_all_sessions_together_remember_so_many_partitions() -> None:
    client = Client(most_partitions=100)
    first = client.fetch(0, 0, dict.fromkeys(range(60), 0))
    second = client.fetch(0, 0, dict.fromkeys(range(60), 0))
    assert first.session_id and not second.session_id, "it asks in full each time"
    assert second.due_count == 60
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


def test_what_a_client_was_told_of_a_partition() -> None:
    (wanted,) = Client().fetch(0, 0, {0: 5}).due()
    assert (wanted.told_high_watermark, wanted.told_start_offset) == (-1, -1), "nothing yet"
    wanted.tell(high_watermark=7, start_offset=3)
    places = ((7, 3), (7, 4), (8, 3), (8, 4))
    assert [wanted.knows(high_watermark=high, start_offset=start) for high, start in places] == [True] + [False] * 3
    wanted.tell_error()
    assert (wanted.told_high_watermark, wanted.told_start_offset) == (-1, 3)


def test_partitions_are_known_by_topic_id_or_by_name() -> None:
    partition = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=100)
    both = [
        FetchTopic(topic=name, topic_id=topic_id, partitions=[partition])
        for name, topic_id in (("t", b"a" * 16), ("t", b"b" * 16), ("u", b"b" * 16))
    ]
    for version, count in ((12, 2), (13, 2)):
        request = Client.request(0, 0, {})
        request.topics = both
        view = Client(version=version).sessions.view(request, version, 0)
        assert view.due_count == count
        assert view.session is not None and view.session.by_topic_id == (version == 13)
        first, second = view.session.due()
        view.session.had_records(first)
        assert view.session.due() == view.session.all() == [second, first], (
            "the one that had records goes behind the other"
        )
        view.session.wanted.clear()
        order = first.order
        view.session.had_records(first)
        assert first.order == order, "it was forgotten while the fetch waited"


def test_a_request_is_taken_in_one_go_where_there_is_time() -> None:
    client = Client()
    requests = (client.request(0, 0, {0: 1, 1: 1}), client.request(1, 1, {2: 1}, forgotten=(0,)))
    for request in requests:
        with pytest.raises(StopIteration):
            next(client.sessions.viewing(request, 12, 0, 1, lambda: False, "User:alice"))
    assert client.sessions.partitions == 2


def test_a_session_that_does_not_grow_goes_on_where_less_is_remembered_by_now() -> None:
    most = 3
    sessions = FetchSessions(
        draw_id=itertools.count(1).__next__, slots=lambda: 9, eviction_ms=lambda: 0, most_partitions=lambda: most
    )
    view = sessions.view(Client.request(0, 0, {0: 1, 1: 1, 2: 1}), 12, 0)
    assert view.session_id == 1
    most = 2
    assert not sessions.view(Client.request(1, 1, {0: 5}), 12, 0).error
    assert sessions.view(Client.request(1, 2, {3: 5}), 12, 0).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_as_many_partitions_are_remembered_as_there_may_be() -> None:
    assert not Client(most_partitions=100).fetch(0, 0, dict.fromkeys(range(101), 0)).session_id
    both = Client(most_partitions=100)
    assert all(both.fetch(0, 0, dict.fromkeys(range(count), 0)).session_id for count in (60, 40))
    client = Client(most_partitions=100)
    first = client.fetch(0, 0, {0: 0})
    assert not client.fetch(first.session_id, 1, dict.fromkeys(range(100), 0)).error
    client.now_ms += 1000
    assert not client.fetch(0, 0, {0: 0}).session_id, "it was not silent for long enough"
    client.now_ms += 1
    assert client.fetch(0, 0, dict.fromkeys(range(100), 0)).session_id
    assert (len(client.sessions), client.sessions.partitions) == (1, 100)


def test_a_session_whose_answer_is_not_sent_ends() -> None:
    client = Client()
    first, second = client.fetch(0, 0, {0: 0}), client.fetch(0, 0, {0: 0})
    client.sessions.end(client.fetch(0, -1, {0: 0}))
    assert len(client.sessions) == 2
    client.sessions.end(first)
    assert (first.session, first.session_id, len(client.sessions), client.sessions.partitions) == (None, 0, 1, 1)
    client.sessions.end(first)
    assert client.fetch(second.session_id, 1, {}).session_id == second.session_id


def test_no_two_sessions_have_one_id() -> None:
    drawn = iter([0, 7, 7, 0, 7, 8])
    sessions = FetchSessions(draw_id=drawn.__next__, slots=lambda: 9, eviction_ms=lambda: 0)
    assert [sessions.view(Client.request(0, 0, {0: 1}), 12, 0).session_id for _ in range(2)] == [7, 8]
    assert len(sessions) == 2
