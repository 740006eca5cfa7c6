"""The exactly-once sink's protocol, searched to its end: it holds, and each of its flaws is noticed.

A flaw's shortest story is printed when its test fails, or with `pytest -s`; `python -m tests.sink_model --stories`
prints them all.
"""

from functools import lru_cache

import pytest

from tests.sink_model.__main__ import title_of
from tests.sink_model.explore import Outcome, Search
from tests.sink_model.findings import FLAWED, SHORT, Wrong, search
from tests.sink_model.kafka import ALL_RULES, OLD, TV2, Answer, Broker, Partition, Phase, Request, Row, deliver
from tests.sink_model.properties import PROPERTIES, SEQUENCES
from tests.sink_model.settings import Flaw, Mode, Setting

searched = lru_cache(maxsize=None)(search)


@pytest.mark.parametrize("setting", SHORT, ids=title_of)
def test_the_protocol_holds_in_every_state(setting: Setting) -> None:
    """I1 to I7 and L1, whatever is late, lost, dead or doubled."""
    outcome = searched(setting)
    assert outcome.broken is None, "\n".join((*outcome.story, outcome.broken.seen))
    assert outcome.states > 1000


def title_of_flaw(wrong: Wrong) -> str:
    return f"{wrong.setting.flaw.name.lower()}-{wrong.setting.mode.value}"


@pytest.mark.parametrize("wrong", FLAWED, ids=title_of_flaw)
def test_a_flaw_is_noticed_by_its_property(wrong: Wrong) -> None:
    outcome = searched(wrong.setting)
    assert outcome.broken is not None, f"not noticed: {wrong.setting.flaw.value}"
    print(wrong.setting.flaw.value, *outcome.story, f"so {outcome.broken.seen}", sep="\n    ")
    assert outcome.broken.name == wrong.noticed_by, "\n".join((*outcome.story, outcome.broken.seen))
    assert outcome.story


def test_every_flaw_and_kind_of_broker_is_in_the_tables() -> None:
    assert {wrong.setting.flaw for wrong in FLAWED} == set(Flaw) - {Flaw.NONE}
    assert {(setting.mode, setting.rules) for setting in SHORT} == {
        (mode, rules) for mode in Mode for rules in ALL_RULES
    }
    assert {wrong.noticed_by for wrong in FLAWED} <= {*PROPERTIES, SEQUENCES}


def test_the_searches_do_what_they_are_about() -> None:
    """A search in which nobody ever met a marker, a fence or a late request would have proved nothing."""
    happened = set().union(*(searched(setting).happened for setting in SHORT))
    for words in (
        "finds its marker and writes nothing",
        "a marker that must not be there",
        "Spark notes the batch as done",
        "Spark has noted the batch already",
        "a late {} of epoch {} arrives",
        "waits no longer for {}, aborts",
        "waits no longer for {}, tries again",
        "another attempt writes for it, it is refused; that one goes on",
        "is lost with its turn, the batch is tried again",
        "gives its last turn back and is done",
        "the lease it writes under is over for its driver",
        "the transaction is too old",
        "the checkpoint is emptied",
        "the checkpoint is moved or copied",
        "the checkpoint is replaced by an older copy",
        "finds that its checkpoint is an older copy",
        "finds markers under the older name and keeps it",
        "settles what is open under the older name",
        "Spark gives the batch up in {}, and the driver aborts",
        "the task that takes the lease is lost",
        "is lost before its first turn, Spark starts another attempt",
        "is lost after its first turn, the batch begins anew",
        "is lost after its first turn, others are done",
        "its result is lost or late, the batch begins anew",
        "its result is lost, others are done",
        "Spark has results of several leases",
    ):
        assert any(words in pattern for pattern in happened), words


def test_the_search_is_breadth_first_and_tells_the_shortest_way() -> None:
    def moves(number: int):  # type: ignore[no-untyped-def]
        yield ("{} and one", number), number + 1
        yield ("twice {}", number), number * 2

    from tests.sink_model.explore import Broken

    outcome: Outcome = Search[int](moves, lambda number: Broken("ten", f"{number}") if number == 10 else None).run(1)
    assert outcome.story in (
        ["1 and one", "twice 2", "4 and one", "twice 5"],
        ["twice 1", "twice 2", "4 and one", "twice 5"],
    )


def test_the_brokers_answers_are_those_of_kafka() -> None:
    """What was measured on Apache Kafka 4.3.1 (and holds for the others by their sources) is what the model answers."""
    start = Broker((Partition(), Partition()))
    for rules in ALL_RULES:
        broker, _ = deliver(start, rules, Request("lease"))
        write = Request("produce", broker.epoch, 1, 0, Row(0, 0, 0))
        assert deliver(broker, rules, Request("commit", broker.epoch))[1] is Answer.GONE
        if not rules.moves_epoch:
            broker, _ = deliver(broker, rules, Request("add", broker.epoch, 1))
        broker, answer = deliver(broker, rules, write)
        again, repeated = deliver(broker, rules, write)
        assert (answer, repeated, again) == (Answer.OK, Answer.OK, broker)
        assert deliver(broker, rules, write._replace(sequence=2))[1] is Answer.GONE
        own = broker.epoch
        fenced, _ = deliver(broker, rules, Request("lease"))
        assert fenced.phase is Phase.PREPARE_ABORT
        assert deliver(fenced, rules, Request("lease")) == (fenced, Answer.WAIT)
        prepared, answer = deliver(broker, rules, Request("commit", own))
        assert (answer, prepared.epoch - own) == (Answer.OK, int(rules.moves_epoch))
        assert deliver(prepared, rules, Request("abort", own))[1] is Answer.GONE


def test_old_leaders_take_what_nobody_will_end() -> None:
    """KAFKA-14402, which KIP-890 mended: the reason why aborts under the old rules are left to the next lease."""
    broker, _ = deliver(Broker((Partition(), Partition())), OLD, Request("lease"))
    broker, answer = deliver(broker, OLD, Request("produce", broker.epoch, 1, 0, Row(0, 0, 0)))
    assert answer is Answer.OK
    assert (broker.phase, broker.partitions[1].is_open) == (Phase.EMPTY, True)
    broker, _ = deliver(Broker((Partition(), Partition())), TV2, Request("lease"))
    broker, _ = deliver(broker, TV2, Request("produce", broker.epoch, 1, 0, Row(0, 0, 0)))
    assert broker.phase is Phase.ONGOING
