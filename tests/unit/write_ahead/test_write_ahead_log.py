"""A write-ahead log: what was committed survives a power cut at any moment, with one sync for all files."""

import errno
from collections.abc import Mapping
from contextlib import suppress
from random import Random

import pytest

from storage.files import File
from storage.write_ahead.commits import BLOCK, HALVES_AT
from storage.write_ahead.file import LARGE_BYTES
from storage.write_ahead.replay import AHEAD_FILE, replay
from tests.harness.loop import ProcessDied
from tests.unit.write_ahead.rig import Rig, check_all, contents

FILE, OTHER = "a-0/0.log", "a-0/1.log"


def test_one_sync_makes_appends_to_many_files_durable() -> None:
    rig = Rig()
    files = [rig.open(str(number)) for number in range(5)]
    for number, file in enumerate(files):
        file.append([b"record ", str(number).encode()])
        assert file.shares_commits
    for file in files:
        file.commit()
    assert rig.disk.syncs == [AHEAD_FILE]
    rig.after_power_cuts(lambda found: check_all(found, {f"a-0/{n}.log": f"record {n}".encode() for n in range(5)}))


def test_what_was_not_committed_may_be_lost_and_is_never_mixed_up() -> None:
    rig = Rig()
    file = rig.open("0")
    file.append([b"first"])
    file.commit()
    file.append([b"second"])
    fates = set()

    def check(found: Mapping[str, bytes]) -> None:
        assert b"firstsecond".startswith(found[FILE]) and found[FILE].startswith(b"first")
        fates.add(found[FILE])

    rig.after_power_cuts(check)
    assert len(fates) > 1


def test_a_commit_holds_what_came_before_it_in_every_file() -> None:
    """So that nothing is durable that rests on what is not: a commit is all there or not at all."""
    rig = Rig()
    one, other = rig.open("0"), rig.open("1")
    one.append([b"data"])
    other.append([b"promise"])
    other.commit()
    rig.after_power_cuts(lambda found: check_all(found, {FILE: b"data", OTHER: b"promise"}))


def test_a_large_append_is_synced_where_it_is_and_small_ones_behind_it_too() -> None:
    rig = Rig()
    file = rig.open("0")
    large = bytes(range(256)) * (LARGE_BYTES // 256)
    file.append([large])
    assert not file.shares_commits
    file.append([b"small"])
    assert not file.shares_commits
    file.commit()
    assert rig.disk.syncs == [FILE]
    file.append([b"more"])
    assert file.shares_commits
    file.commit()
    assert rig.disk.syncs == [FILE, AHEAD_FILE]
    rig.after_power_cuts(lambda found: check_all(found, {FILE: large + b"small" + b"more"}))


def test_a_small_append_beside_a_sync_that_is_under_way_takes_along_what_was_not_covered() -> None:
    """What was appended while the file was synced is small again: the log has it from there on."""
    rig = Rig()
    file = rig.open("0")
    file.append([bytes(LARGE_BYTES)])

    def append_meanwhile(operation: str, path: str) -> None:
        if operation == "sync" and path == FILE:
            rig.disk.fault = None
            file.append([b"meanwhile"])

    rig.disk.fault = append_meanwhile
    file.commit()
    assert not file.shares_commits
    file.append([b"next"])
    assert file.shares_commits
    file.commit()
    rig.after_power_cuts(lambda found: check_all(found, {FILE: bytes(LARGE_BYTES) + b"meanwhilenext"}))


def test_it_goes_round_and_round() -> None:
    rig = Rig(half_blocks=4)
    random = Random(1)
    files = [rig.open(str(number)) for number in range(4)]
    expected = dict.fromkeys((f"a-0/{number}.log" for number in range(4)), b"")
    for _ in range(200):
        number = random.randrange(4)
        data = random.randbytes(random.randrange(1, 3000))
        files[number].append([data])
        expected[f"a-0/{number}.log"] += data
        files[number].commit()
        if random.random() < 0.3 and rig.log.work is not None:
            rig.log.work()
        rig.after_power_cuts(lambda found: check_all(found, expected), count=2)
    assert rig.disk.open(AHEAD_FILE).size() == HALVES_AT + 8 * BLOCK


def test_more_than_a_quarter_of_a_half_is_synced_where_it_is() -> None:
    rig = Rig(half_blocks=4)
    files = [rig.open(str(number)) for number in range(4)]
    for file in files:
        file.append([b"x" * 2000])
    for file in files:
        file.commit()
    assert rig.disk.syncs == ["a-0/0.log", "a-0/1.log", "a-0/2.log", "a-0/3.log"]
    rig.after_power_cuts(lambda found: check_all(found, {f"a-0/{n}.log": b"x" * 2000 for n in range(4)}))


def test_where_to_begin_is_on_the_disk_before_a_half_is_written_over() -> None:
    """The first commit over it may be torn, and takes away one that was needed until then."""
    rig = Rig(half_blocks=4)
    file = rig.open("0")
    expected = b""

    def append() -> None:
        nonlocal expected
        file.append([b"x" * 1000])
        expected += b"x" * 1000
        file.commit()

    while rig.log.work is None:
        append()
    for _ in range(3):
        append()
    rig.log.work()
    append_torn(rig, file)
    rig.after_power_cuts(lambda found: check_all(found, {FILE: expected}))


def append_torn(rig: Rig, file: File) -> None:
    """One that is appended, and the power goes while it is committed."""

    def die(operation: str, path: str) -> None:
        if (operation, path) == ("sync", AHEAD_FILE):
            raise ProcessDied

    rig.disk.watcher = die
    file.append([b"y" * 1000])
    with pytest.raises(ProcessDied):
        file.commit()
    rig.disk.watcher = None


def test_a_file_whose_name_was_never_on_the_disk_is_passed_over() -> None:
    rig = Rig()
    file = rig.files.open("a-0/7.log", create=True)
    file.append([b"nobody was told"])
    file.commit()
    rig.after_power_cuts(lambda found: None)


def test_a_start_can_be_killed_in_the_middle_of_a_replay() -> None:
    rig = Rig()
    one, other = rig.open("0"), rig.open("1")
    for number in range(30):
        one.append([f"record {number} ".encode()])
        other.append([b"other"])
        one.commit()
    expected = {FILE: b"".join(f"record {n} ".encode() for n in range(30)), OTHER: b"other" * 30}
    for seed in range(200):
        disk = rig.disk.crash(Random(seed))
        left = Random(seed).randrange(12)

        def die(operation: str, path: str) -> OSError | None:
            nonlocal left
            left -= 1
            return OSError(errno.EIO, "killed") if left < 0 else None

        disk.fault = die
        with suppress(OSError):
            replay(disk)
        disk = disk.crash(Random(-seed))
        replay(disk)
        check_all(contents(disk.crash(Random(seed))), expected)


def test_where_to_begin_never_names_a_commit_that_is_not_there_yet() -> None:
    """A checkpoint may run beside the commit that begins a half."""
    rig = Rig(half_blocks=4)
    file = rig.open("0")
    works = []

    def look(operation: str, path: str) -> None:
        if (operation, path) == ("write_at", AHEAD_FILE):
            works.append(rig.log.work)

    rig.disk.fault = look
    while rig.log.work is None:
        file.append([b"x" * 1000])
        file.commit()
    assert len(works) > 3 and works == [None] * len(works)


def test_it_is_made_when_it_is_of_use() -> None:
    rig = Rig(ready=False)
    file = rig.open("0")
    for _ in range(3):
        assert rig.log.work is None
        file.append([b"small"])
        file.commit()
        assert not file.shares_commits or not rig.log.is_ready
    work = rig.log.work
    assert work is not None
    work()
    assert rig.log.is_ready and rig.log.work is None
    rig.disk.syncs.clear()
    file.append([b"small"])
    file.commit()
    assert rig.disk.syncs == [AHEAD_FILE]
    rig.after_power_cuts(lambda found: check_all(found, {FILE: b"small" * 4}))


def test_a_disk_without_room_for_it_has_none() -> None:
    rig = Rig(ready=False)
    rig.disk.capacity_bytes = 3 * BLOCK
    rig.log.prepare()
    assert not rig.log.is_ready and not rig.disk.exists(AHEAD_FILE) and rig.log.work is None
    file = rig.open("0")
    file.append([b"data"])
    file.commit()
    assert rig.disk.syncs == [FILE]


def test_a_commit_that_failed_is_final() -> None:
    rig = Rig()
    file = rig.open("0")
    file.append([b"data"])
    rig.disk.fault = lambda operation, path: OSError(errno.EIO, "bad") if path == AHEAD_FILE else None
    with pytest.raises(OSError, match="bad"):
        file.commit()
    rig.disk.fault = None
    file.append([b"more"])
    with pytest.raises(OSError, match="an earlier commit failed"):
        file.commit()


def test_a_checkpoint_that_cannot_sync_says_so_before_anybody_else_and_keeps_what_it_has() -> None:
    rig = Rig(half_blocks=4)
    file = rig.open("0")
    expected = b""
    while rig.log.work is None:
        file.append([b"x" * 1000])
        expected += b"x" * 1000
        file.commit()
    told: list[str] = []
    rig.log.on_failed = lambda: told.append("failed")
    rig.disk.fault = lambda operation, path: OSError(errno.EIO, "bad") if path == FILE else None
    with pytest.raises(OSError, match="bad"):
        rig.log.work()
    assert told == ["failed"]
    rig.disk.fault = None
    rig.after_power_cuts(lambda found: check_all(found, {FILE: expected}))


def test_a_replay_writes_what_the_page_cache_has_already() -> None:
    """After a sync that failed the page cache has what the disk has not, and takes it for clean."""
    rig = Rig()
    file = rig.open("0")
    file.append([b"data"])
    file.commit()
    rig.disk.fault = lambda operation, path: OSError(errno.EIO, "bad") if (operation, path) == ("sync", FILE) else None
    with pytest.raises(OSError, match="bad"):
        file.sync()
    rig.disk.fault = None
    killed = rig.disk.kill()
    replay(killed)
    check_all(contents(killed.crash(Random(1))), {FILE: b"data"})


def test_an_orderly_end_leaves_nothing_of_it() -> None:
    rig = Rig()
    file = rig.open("0")
    file.append([b"data"])
    file.commit()
    rig.log.close()
    rig.log.close()
    assert not rig.disk.exists(AHEAD_FILE)
    check_all(contents(rig.disk.crash(Random(3))), {FILE: b"data"})
