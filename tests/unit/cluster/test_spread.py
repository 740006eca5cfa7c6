"""Which node leads what: evenly by topic and in all, nothing by who is gone, and no more moves than it takes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.cluster.framing import framed
from coordinator.cluster.image import ClusterImage
from coordinator.cluster.leaders import Leaders, led_partition
from coordinator.cluster.records import RegisterBrokerRecord, TopicRecord
from coordinator.cluster.spread import Spread, moves

TOPICS = st.lists(st.lists(st.integers(-1, 6), min_size=1, max_size=9), max_size=9)
LIVING = st.lists(st.integers(0, 8), min_size=1, max_size=6, unique=True)
RACKS = st.dictionaries(st.integers(0, 8), st.sampled_from("ab"))
NOWHERE: Mapping[int, str] = {}
EPOCH = 20


def image_of(
    topics: Sequence[Sequence[int]], starts: Mapping[int, int] | None = None, racks: Mapping[int, str] = NOWHERE
) -> ClusterImage:
    """Topics with these leaders, and brokers with the epochs of their starts."""
    starts = starts or {node: place for place, node in enumerate(racks)}
    image = ClusterImage()
    records: list[object] = [
        RegisterBrokerRecord(
            broker_id=node,
            incarnation_id=bytes(16),
            broker_epoch=epoch,
            end_points=[],
            features=[],
            rack=racks.get(node),
        )
        for node, epoch in sorted(starts.items(), key=lambda one: one[1])
    ]
    for number, leaders in enumerate(topics):
        topic_id = (number + 1).to_bytes(16, "big")
        records.append(TopicRecord(name=f"t{number}", topic_id=topic_id))
        records += [led_partition(topic_id, index, node, EPOCH, []) for index, node in enumerate(leaders)]
    for offset, record in enumerate(framed(records)):
        assert record.value is not None
        image.replay(offset, record.value)
    return image


def after(image: ClusterImage, living: Sequence[int], most: int | None = None) -> int:
    """Makes the moves, as many at a time; how many there were."""
    count = 0
    while True:
        some = [(topic, index, node) for topic, index, node in islice(moves(image, living), most)]
        places = [(topic.name, index) for topic, index, _ in some]
        assert len(set(places)) == len(places), "nothing moves twice"
        epoch = image.epoch + 1
        for topic, index, node in some:
            image.led[topic.leaders.leader(index)] -= 1
            image.led[node] += 1
            topic.leaders.put(index, node, epoch)
        image.epoch = epoch
        count += len(some)
        if not some or most is None:
            return count


def totals(image: ClusterImage, living: Sequence[int]) -> list[int]:
    led = Counter(node for topic in image.topics.values() for node in topic.leaders.nodes())
    assert all(led[node] == count for node, count in image.led.items())
    return [led[node] for node in living]


def fewest(image: ClusterImage, living: Sequence[int]) -> int:
    """How many moves it takes at least."""
    have = sorted(totals(image, living), reverse=True)
    everything = sum(len(topic.leaders) for topic in image.topics.values())
    share, over = divmod(everything, len(living))
    surplus = sum(max(0, count - share - (place < over)) for place, count in enumerate(have))
    return everything - sum(have) + surplus


@settings(max_examples=300, deadline=None)
@given(TOPICS, LIVING, RACKS)
def test_everything_is_led_by_who_lives_and_evenly_after_as_few_moves_as_can_be(
    topics: list[list[int]], living: list[int], racks: dict[int, str]
) -> None:
    image = image_of(topics, racks=racks)
    least = fewest(image, living)
    assert after(image, living) == least
    have = totals(image, living)
    assert sum(have) == sum(map(len, topics))
    assert max(have) - min(have) <= 1
    assert after(image, living) == 0, "what is as it should be stays"


@settings(max_examples=100, deadline=None)
@given(TOPICS, LIVING, st.integers(1, 3))
def test_some_at_a_time_come_to_as_few_moves(topics: list[list[int]], living: list[int], most: int) -> None:
    image = image_of(topics)
    least = fewest(image, living)
    assert after(image, living, most) == least
    have = totals(image, living)
    assert max(have) - min(have) <= 1


@settings(max_examples=100, deadline=None)
@given(TOPICS, LIVING)
def test_moves_leave_topics_as_evenly_spread_as_they_were(topics: list[list[int]], living: list[int]) -> None:
    """But for what has lost its leader, which may have to go where room is."""
    topics = [[living[node % len(living)] for node in leaders] for leaders in topics]
    image = image_of(topics)
    before = [unevenness(topic.leaders, living) for topic in image.topics.values()]
    after(image, living)
    now = [unevenness(topic.leaders, living) for topic in image.topics.values()]
    assert all(one <= other for one, other in zip(now, before, strict=True))


def unevenness(leaders: Leaders, living: Sequence[int]) -> int:
    have = leaders.count_by_node()
    return max(have[node] for node in living) - min(have[node] for node in living)


def test_topics_that_are_spread_unevenly_give_first() -> None:
    image = image_of([[1, 2], [1, 1]])
    assert [(topic.name, index, node) for topic, index, node in moves(image, (1, 2))] == [("t1", 0, 2)]


def test_who_joins_gets_its_share_of_each_topic() -> None:
    image = image_of([[1, 2] * 3, [1, 2] * 3])
    after(image, (1, 2, 3))
    assert [topic.leaders.count_by_node() for topic in image.topics.values()] == [{1: 2, 2: 2, 3: 2}] * 2


def test_what_a_node_led_is_spread_over_the_others_topic_by_topic() -> None:
    image = image_of([[1, 2, 3] * 4, [1, 2, 3] * 4])
    after(image, (1, 3))
    assert [topic.leaders.count_by_node() for topic in image.topics.values()] == [{1: 6, 3: 6}] * 2


def test_a_node_that_started_anew_leads_anew_what_it_led() -> None:
    """Its process that was told so is gone; the epoch tells the two apart."""
    image = image_of([[1, 2, 1], [2, 1, 2]], {1: EPOCH - 1, 2: EPOCH + 1})
    assert [(topic.name, index, node) for topic, index, node in moves(image, (1, 2))] == [
        ("t0", 1, 2),
        ("t1", 0, 2),
        ("t1", 2, 2),
    ]
    assert after(image, (1, 2)) == 3
    assert after(image, (1, 2)) == 0


def test_a_node_that_started_anew_gives_away_first_what_it_does_not_lead_yet() -> None:
    image = image_of([[2, 2, 2, 2]], {1: EPOCH - 1, 2: EPOCH + 1})
    assert [(index, node) for _, index, node in moves(image, (1, 2))] == [(0, 1), (1, 1), (2, 2), (3, 2)]


def test_where_nobody_lives_nothing_moves() -> None:
    assert list(moves(image_of([[1, 2]]), ())) == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 9), max_size=9), LIVING, TOPICS, RACKS)
def test_new_topics_are_spread_evenly_each_and_in_all(
    counts: list[int], living: list[int], there: list[list[int]], racks: dict[int, str]
) -> None:
    image = image_of(there)
    spread, led = Spread(living, image.led, 7, racks), Counter(image.led)
    for count in counts:
        chosen = list(islice(spread.choose(Leaders()), count))
        of_topic = Counter(chosen)
        assert max(of_topic[node] for node in living) - min(of_topic[node] for node in living) <= 1
        once_more = count % len(living)
        if once_more:
            more = chosen[-once_more:]
            fewer = set(living) - set(more)
            assert max(led[node] for node in more) <= min(led[node] for node in fewer), "who leads less comes first"
        led.update(chosen)


def test_ties_are_decided_by_the_ids_of_nodes() -> None:
    assert list(islice(Spread((3, 1, 2), {}, 0).choose(Leaders()), 5)) == [1, 2, 3, 1, 2]
    assert list(islice(Spread((3, 1, 2), {1: 1}, 0).choose(Leaders()), 5)) == [2, 3, 1, 2, 3]


def test_a_topic_is_led_in_every_rack_before_a_second_time_in_one() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    assert list(islice(Spread((1, 2, 3, 4, 5), {}, 0, racks).choose(Leaders()), 6)) == [1, 3, 5, 2, 4, 5]
    assert list(islice(Spread((1, 2, 3, 4), {1: 1}, 0, racks).choose(Leaders()), 4)) == [2, 3, 4, 1], "who leads less"
    so_far = Leaders()
    so_far.append(2, 0)
    assert list(islice(Spread((1, 2, 3), {}, 0, racks).choose(so_far), 2)) == [3, 1]
    assert list(islice(Spread((1, 3), {}, 0, racks).choose(so_far), 2)) == [1, 3], "it has gone, and its partition goes"


def test_what_a_node_led_goes_to_the_rack_that_leads_less_of_its_topic() -> None:
    image = image_of([[3, 2], [3, 4], [4, 1], [1, 3]], racks={1: "b", 2: "b", 3: "a", 4: "a"})
    assert [(topic.name, index, node) for topic, index, node in moves(image, (1, 2, 4))] == [
        ("t0", 0, 4),
        ("t1", 0, 1),
        ("t3", 1, 2),
    ]


def test_of_what_has_lost_its_leader_topics_with_few_partitions_choose_first() -> None:
    """They have the least choice; where there are no racks, the order is that of the topics."""
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    topics = [[3, 1, 2], [3, 1], [2], [2], [4], [4]]
    image = image_of(topics, racks=racks)
    assert [(topic.name, index, node) for topic, index, node in moves(image, (1, 2, 4))] == [("t1", 0, 4), ("t0", 0, 1)]
    image = image_of(topics)
    assert [(topic.name, index, node) for topic, index, node in moves(image, (1, 2, 4))] == [("t0", 0, 4), ("t1", 0, 1)]


def racks_apart(image: ClusterImage, racks: Mapping[int, str]) -> list[int]:
    """Of each topic, by how many partitions its racks differ."""
    apart = []
    for topic in image.topics.values():
        have = Counter(racks[node] for node in topic.leaders.nodes())
        apart.append(max(have[rack] for rack in "ab") - min(have[rack] for rack in "ab"))
    return apart


def test_who_comes_back_spoils_no_topic_where_another_may_give_as_well() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    image = image_of([[2, 4], [1, 2], [1, 4], [2, 1], [4, 4]], racks=racks)
    assert racks_apart(image, racks) == [0, 2, 0, 2, 2]
    assert after(image, (1, 2, 3, 4)) == 2
    assert image.topics["t1"].leaders.count_by_node()[3] + image.topics["t3"].leaders.count_by_node()[3] == 1
    assert racks_apart(image, racks)[0] == racks_apart(image, racks)[2] == 0


def test_racks_are_as_even_after_each_node_was_away_once() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    spread = Spread((1, 2, 3, 4), {}, 0, racks)
    image = image_of([list(islice(spread.choose(Leaders()), count)) for count in (2, 3, 4) * 10], racks=racks)
    for away in racks:
        after(image, [node for node in racks if node != away])
        after(image, list(racks))
    assert racks_apart(image, racks) == [0, 1, 0] * 10


def test_a_topic_grows_where_it_has_fewest() -> None:
    so_far = Leaders()
    so_far.extend(3, 1, 0)
    so_far.append(9, 0)
    assert list(islice(Spread((1, 2), {1: 3, 2: 50}, 0).choose(so_far), 5)) == [2, 2, 2, 1, 2]


def test_a_node_that_is_alone_leads_everything() -> None:
    assert list(islice(Spread((4,), {}, 0).choose(Leaders()), 3)) == [4, 4, 4]


def test_of_nodes_that_are_named_the_first_that_lives_leads() -> None:
    spread = Spread((1, 2, 3), {}, 0)
    assert list(spread.assigned([[9, 2, 1], [3], [2, 9]])) == [2, 3, 2]
    assert list(islice(spread.choose(Leaders()), 2)) == [1, 3], "they count"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(("append", "extend", "put", "with")), st.integers(-1, 9)), max_size=12))
def test_leaders_are_a_list_of_pairs(steps: list[tuple[str, int]]) -> None:
    leaders, pairs = Leaders(), list[tuple[int, int]]()
    for number, (what, node) in enumerate(steps):
        kept, before = leaders.copy(), list(pairs)
        if what == "append":
            leaders.append(node, number)
            pairs.append((node, number))
        elif what == "extend":
            leaders.extend(3, node, number)
            pairs += [(node, number)] * 3
        elif what == "with":
            other = Leaders()
            other.extend(2, node, number)
            leaders.extend_with(other)
            pairs += [(node, number)] * 2
        elif pairs:
            leaders.put(node % len(pairs), node, number)
            pairs[node % len(pairs)] = (node, number)
        assert list(kept) == before, "a copy stays as it was"
    assert list(leaders) == pairs and len(leaders) == len(pairs)
    assert [(leaders.leader(index), leaders.epoch(index)) for index in range(len(leaders))] == pairs
    assert list(leaders.nodes()) == [node for node, _ in pairs]
    assert leaders.highest_epoch() == max((epoch for _, epoch in pairs), default=-1)
