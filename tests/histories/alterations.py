"""One lie for each class of anomaly, told in a history that was healthy."""

from collections.abc import Callable, Iterator

from tests.histories.operation import FAIL, INFO, LOOK, OK, POLL, SEND, TXN, Operation, Place, Poll, Send

Alteration = Callable[[list[Operation]], None]
EVER = 10**12
"""Later than anything in a history."""


def _committed_with(operations: list[Operation], fits: Callable[[Operation], bool]) -> Operation:
    """A transaction in the middle of the history, acknowledged as committed."""
    found = [one for one in operations if one.kind == TXN and one.outcome == OK and fits(one)]
    return found[len(found) // 2]


def _of_a_writer(operations: list[Operation]) -> tuple[Operation, Send]:
    one = _committed_with(operations, lambda one: any(send.is_placed for send in one.sends))
    return one, next(send for send in one.sends if send.is_placed)


def _showing(operations: list[Operation], value: int, kind: str = POLL) -> Iterator[tuple[Operation, Poll, int]]:
    """(operation, poll, index in it) of those that read_committed readers were shown."""
    for one in operations:
        for poll in one.polls:
            for index, record in enumerate(poll.records):
                if record[2] == value and poll.committed_only and one.kind == kind:
                    yield one, poll, index


def _hide(operations: list[Operation], value: int, process: str | None = None) -> None:
    """From one read_committed reader, or from all."""
    for one in operations:
        for poll in one.polls:
            if poll.committed_only and process in (None, one.process):
                poll.records = [record for record in poll.records if record[2] != value]


def _places(one: Operation) -> dict[Place, list[Send]]:
    found: dict[Place, list[Send]] = {}
    for send in one.sends:
        if send.is_placed:
            found.setdefault(send.place, []).append(send)
    return found


# -- records -------------------------------------------------------------------------------------------------------


def another_value_at_its_offset(operations: list[Operation]) -> None:
    _, send = _of_a_writer(operations)
    _, poll, index = next(_showing(operations, send.value))
    poll.records[index] = (send.place, send.offset or 0, send.value + 1)


def shown_at_two_offsets(operations: list[Operation]) -> None:
    _, send = _of_a_writer(operations)
    look = next(one for one in operations if one.kind == LOOK)
    look.polls[0].records.append((send.place, look.ends[send.place][2], send.value))


def shown_though_nobody_sent_it(operations: list[Operation]) -> None:
    look = next(one for one in operations if one.kind == LOOK)
    place = next(iter(look.ends))
    look.polls[0].records.append((place, look.ends[place][2], EVER))


def acknowledged_and_gone(operations: list[Operation]) -> None:
    _, send = _of_a_writer(operations)
    _hide(operations, send.value)


def aborted_and_gone(operations: list[Operation]) -> None:
    """It is to stand in the log all the same."""
    aborted = [one for one in operations if one.outcome == FAIL and any(send.is_placed for send in one.sends)]
    value = next(send.value for send in aborted[len(aborted) // 2].sends if send.is_placed)
    for one in operations:
        for poll in one.polls:
            poll.records = [record for record in poll.records if record[2] != value]


def nobody_came_so_far(operations: list[Operation]) -> None:
    """The last record is hidden behind a last stable offset that stands."""
    look = next(one for one in operations if one.kind == LOOK)
    place = ("t", 0)
    shown = [record for one in operations for poll in one.polls if poll.committed_only for record in poll.records]
    highest = max((offset, value) for where, offset, value in shown if where == place)
    look.ends[place] = (0, highest[0], look.ends[place][2])
    _hide(operations, highest[1])


def shown_though_it_was_aborted(operations: list[Operation]) -> None:
    _of_a_writer(operations)[0].outcome = FAIL


def shown_before_its_commit(operations: list[Operation]) -> None:
    _of_a_writer(operations)[0].decided = EVER


def shown_to_its_own_transaction(operations: list[Operation]) -> None:
    one, send = _of_a_writer(operations)
    one.polls = [Poll(one.invoked, one.decided or 0, [(send.place, send.offset or 0, send.value)])]


def _exchanged(operations: list[Operation], first: Send, second: Send) -> None:
    """Each stands where the other stood, for everybody."""
    values = {first.value: second.value, second.value: first.value}
    first.offset, second.offset = second.offset, first.offset
    for one in operations:
        for poll in one.polls:
            poll.records = [(place, offset, values.get(value, value)) for place, offset, value in poll.records]


def two_of_a_transaction_exchanged(operations: list[Operation]) -> None:
    one = _committed_with(operations, lambda one: any(len(sends) > 1 for sends in _places(one).values()))
    first, second = next(sends for sends in _places(one).values() if len(sends) > 1)[:2]
    _exchanged(operations, first, second)


def a_late_one_in_front_of_an_early_one(operations: list[Operation]) -> None:
    early = [one for one in operations if one.kind == SEND and ("t", 0) in _places(one)]
    _exchanged(operations, early[0].sends[0], early[-1].sends[-1])
    for send in (early[0].sends[0], early[-1].sends[-1]):
        send.place = ("t", 0)


# -- polls ---------------------------------------------------------------------------------------------------------


def _long_poll(operations: list[Operation]) -> Poll:
    """With three records of a partition at least."""
    return next(
        poll
        for one in operations
        if one.kind == POLL and one.process.startswith("reader")
        for poll in one.polls
        if len({offset for place, offset, _ in poll.records if place == ("t", 0)}) > 2
    )


def one_left_out(operations: list[Operation]) -> None:
    del _long_poll(operations).records[1]


def two_in_the_wrong_order(operations: list[Operation]) -> None:
    records = _long_poll(operations).records
    records[0], records[1] = records[1], records[0]
    del records[2]  # a third that is skipped, so that going back is not all


def one_shown_again(operations: list[Operation]) -> None:
    records = _long_poll(operations).records
    records.append(records[0])


def half_of_its_records_in_a_partition(operations: list[Operation]) -> None:
    """The later one is shown, the earlier one is not."""
    one = _committed_with(
        operations,
        lambda one: (
            any(len(sends) > 1 for sends in _places(one).values())
            and all(next(_showing(operations, send.value), None) for send in one.sends)
        ),
    )
    first = next(sends for sends in _places(one).values() if len(sends) > 1)[0]
    _hide(operations, first.value, next(_showing(operations, first.value))[0].process)


def one_partition_of_two(operations: list[Operation]) -> None:
    """A reader is shown nothing of it in one partition, and all of it in the other."""
    one = _committed_with(
        operations,
        lambda one: len(_places(one)) > 1 and all(next(_showing(operations, send.value), None) for send in one.sends),
    )
    sends = next(iter(_places(one).values()))
    process = next(_showing(operations, sends[0].value))[0].process
    for send in sends:
        _hide(operations, send.value, process)


# -- offsets and endings -------------------------------------------------------------------------------------------


def _consumed(one: Operation) -> bool:
    return bool(one.offsets) and any(poll.records for poll in one.polls)


def polled_by_two_transactions(operations: list[Operation]) -> None:
    one = _committed_with(operations, _consumed)
    other = next(
        other
        for other in operations
        if other is not one and other.outcome == OK and _consumed(other) and other.offsets.keys() == one.offsets.keys()
    )
    other.polls[0].records += one.polls[0].records


def committed_without_being_polled(operations: list[Operation]) -> None:
    one = _committed_with(operations, _consumed)
    one.polls[0].records.clear()


def _stand_at(operations: list[Operation], one: Operation, offset: int) -> None:
    look = next(one for one in operations if one.kind == LOOK)
    look.offsets[next(iter(one.offsets))] = offset


def a_group_goes_back(operations: list[Operation]) -> None:
    _stand_at(operations, _committed_with(operations, _consumed), 0)


def a_group_stands_where_an_aborted_put_it(operations: list[Operation]) -> None:
    aborted = [one for one in operations if one.outcome == FAIL and one.offsets]
    one = aborted[-1]
    one.offsets = {key: offset + EVER for key, offset in one.offsets.items()}
    _stand_at(operations, one, next(iter(one.offsets.values())))


def the_end_is_not_stable(operations: list[Operation]) -> None:
    look = next(one for one in operations if one.kind == LOOK)
    place = next(iter(look.ends))
    look.ends[place] = (0, look.ends[place][2] - 1, look.ends[place][2])


# -- cycles --------------------------------------------------------------------------------------------------------


def each_was_shown_the_other(operations: list[Operation]) -> None:
    _meet(operations, [("a", 0, 100), ("b", 0, 100)], {"a": "b", "b": "a"})


def shown_what_its_process_sent_later(operations: list[Operation]) -> None:
    """By way of another transaction; nobody knows when the first two ended."""
    _meet(operations, [("a", 0, None), ("b", 5, None), ("a", 10, 100)], {"a": "b", "b": "a2"})


def shown_what_began_after_it_had_ended(operations: list[Operation]) -> None:
    _meet(operations, [("a", 0, 10), ("b", 20, 100)], {"a": "b"})


def _meet(operations: list[Operation], spans: list[tuple[str, int, int | None]], shown: dict[str, str]) -> None:
    """Transactions of one record each, in a partition each, behind all others; who was shown whose."""
    made: dict[str, Operation] = {}
    for process, begin, end in spans:
        name = process if process not in made else process + "2"
        value = EVER + len(made)
        made[name] = Operation(process, TXN, EVER + begin, None if end is None else EVER + end, OK, process, 0)
        made[name].outcome = INFO if end is None else OK
        made[name].sends = [Send((name, 0), value, 0)]
    for reader, writer in shown.items():
        value = made[writer].sends[0].value
        made[reader].polls = [Poll(0, EVER, [((writer, 0), 0, value)])]
    operations += made.values()


ALTERATIONS: dict[str, list[Alteration]] = {
    "inconsistent offsets": [another_value_at_its_offset],
    "duplicate": [shown_at_two_offsets],
    "unwritten read": [shown_though_nobody_sent_it],
    "lost write": [acknowledged_and_gone, aborted_and_gone],
    "unseen write": [nobody_came_so_far],
    "aborted read (G1a)": [shown_though_it_was_aborted],
    "precommitted read": [shown_before_its_commit, shown_to_its_own_transaction],
    "nonmonotonic send": [two_of_a_transaction_exchanged],
    "send against time": [a_late_one_in_front_of_an_early_one],
    "skipped poll": [one_left_out],
    "nonmonotonic poll": [two_in_the_wrong_order],
    "repeated poll": [one_shown_again],
    "intermediate read (G1b)": [half_of_its_records_in_a_partition],
    "torn transaction": [half_of_its_records_in_a_partition, one_partition_of_two, acknowledged_and_gone],
    "processed twice": [polled_by_two_transactions],
    "not processed": [committed_without_being_polled],
    "lost offsets": [a_group_goes_back],
    "aborted offsets": [a_group_stands_where_an_aborted_put_it],
    "hanging transaction": [the_end_is_not_stable],
    "G1c": [each_was_shown_the_other],
    "G1c with the order in a process": [shown_what_its_process_sent_later],
    "G1c with the order in time": [shown_what_began_after_it_had_ended],
}
