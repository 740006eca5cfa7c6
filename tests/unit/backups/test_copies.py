"""What a backup copies, what it does not even read, and what is left of one that was killed."""

import os
import sys
from collections.abc import Callable

import pytest

from broker.backups import copying
from broker.backups.pieces import Damaged, PieceStore
from broker.backups.pruning import check, prune
from broker.backups.target import Refused
from tests.unit.backups.place import Killed, Place, killed_at, quiet


def test_a_second_backup_copies_what_is_new_and_reads_no_more(place: Place) -> None:
    before, first = place.now(), place.backup()
    assert first.manifest.new_bytes == first.read_bytes + len(b"made")
    place.put(f"{9:020d}.log", b"tail", append=True)
    second = place.backup()
    assert (second.manifest.new_bytes, second.read_bytes) == (4, 4 + len(before["0-epochs"]))
    assert second.manifest.size_bytes == first.manifest.size_bytes + 4
    place.put(f"{9:020d}.log", b"and more", append=True)
    place.put(f"{15:020d}.log", b"the next one")
    third = place.backup()
    assert third.manifest.new_bytes == len(b"and more" + b"the next one")
    assert place.restored("b1") == before
    assert place.restored("b3", "latest") == place.now()
    assert check(place.target, place.target.ids(), quiet).damaged == []
    assert place.backup(whole=True).read_bytes == sum(map(len, place.now().values()))


def test_it_ends_where_it_ended_at_the_moment(place: Place) -> None:
    name = f"{9:020d}.log"
    place.backup(lengths={name: 1_500})
    assert place.restored("b1")[name] == place.now()[name][:1_500]
    with pytest.raises(Refused, match="ends at byte 2400, and was 2401 bytes long"):
        place.backup(lengths={name: 2_401})


def rewritten(place: Place, name: str, data: bytes) -> None:
    """In place, with the size and the time that it had."""
    path = place.root / "data" / "t-0" / name
    before = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))


def another_life(place: Place) -> None:
    """A power cut has taken the tail, and other records came in its place."""
    place.life = "another"
    rewritten(place, f"{9:020d}.log", b"others" * 401)


def shorter(place: Place) -> None:
    """No broker makes a segment shorter that it writes to; whoever does is not believed."""
    os.truncate(place.root / "data" / "t-0" / f"{9:020d}.log", 1_234)


def no_broker(place: Place) -> None:
    place.running, place.life = False, ""
    rewritten(place, f"{9:020d}.log", b"others" * 401)


def another_file(place: Place) -> None:
    """As compaction puts one in its place."""
    path = place.root / "data" / "t-0" / f"{0:020d}.log"
    before = path.stat()
    (place.root / "new").write_bytes(b"c" * before.st_size)
    os.utime(place.root / "new", ns=(before.st_mtime_ns, before.st_mtime_ns))
    os.rename(place.root / "new", path)


def another_time(place: Place) -> None:
    path = place.root / "data" / "t-0" / f"{0:020d}.log"
    rewritten(place, path.name, b"d" * path.stat().st_size)
    os.utime(path, ns=(1, 1))


def compaction(place: Place) -> None:
    """Even under the old inode."""
    place.compacted = True
    rewritten(place, f"{0:020d}.log", b"e" * 2_500)


def no_longer_compacted(place: Place) -> None:
    place.compacted = True
    place.backup()
    place.compacted = False
    rewritten(place, f"{0:020d}.log", b"f" * 2_500)


@pytest.mark.parametrize(
    "happens", [another_life, shorter, no_broker, another_file, another_time, compaction, no_longer_compacted]
)
def test_what_may_be_another_is_read(place: Place, happens: Callable[[Place], None]) -> None:
    place.backup()
    happens(place)
    last = place.backup().manifest.head.id
    assert place.restored(last) == place.now()


@pytest.mark.skipif(sys.platform != "linux", reason="it asks /proc which file is read")
def test_a_file_that_changes_while_it_is_copied_is_read_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    name, reads = f"{0:020d}.log", [0]
    read_at = copying.read_at

    def reading(descriptor: int, position: int, size: int) -> bytes:
        found = read_at(descriptor, position, size)
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(name) and reads[0] < most:
            reads[0] += 1
            place.put(name, b"rebuilt" * (200 + reads[0]))
        return found

    monkeypatch.setattr(copying, "read_at", reading)
    most = 1
    place.backup()
    assert place.restored("b1") == place.now()
    most = 1 << 30
    with pytest.raises(Refused, match="being written to"):
        place.backup(whole=True)
    assert place.target.ids() == ["b1"] and place.target.unfinished() == []


def test_one_that_is_killed_anywhere_leaves_the_others_whole(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    before, step = place.now(), 0
    place.backup()
    place.put(f"{9:020d}.log", b"x" * 1_700, append=True)
    place.put(f"{11:020d}.log", b"y" * 50)
    was_unfinished = False
    while killed_at(monkeypatch, step, place.backup):
        whole = place.target.ids()
        assert whole == ["b1"] or set(whole) == {"b1", f"b{place.count}"}
        assert check(place.target, whole, quiet).damaged == []
        was_unfinished = was_unfinished or bool(place.target.unfinished())
        for later in whole[1:]:
            prune(place.target, [later])
        step += 1
    assert step > 8 and was_unfinished
    last = f"b{place.count}"
    assert place.target.ids() == ["b1", last] and place.target.unfinished() == []
    assert place.restored("b1") == before
    assert place.restored(last, "latest") == place.now()


def test_what_one_had_copied_that_was_killed_is_not_copied_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = PieceStore.finish

    def killed(store: PieceStore) -> None:
        raise Killed

    monkeypatch.setattr(PieceStore, "finish", killed)
    with pytest.raises(Killed):
        place.backup()
    monkeypatch.setattr(PieceStore, "finish", finish)
    assert place.target.ids() == []
    small = len(place.now()["0-epochs"]) + len(b"made")
    assert place.backup().manifest.new_bytes == small


def test_pruned_anywhere_the_others_are_whole(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.backup()
    for number in range(3):
        place.put(f"{9:020d}.log", b"%d" % number * 700, append=True)
        place.put("0-epochs", b"%d" % number)
        place.backup()
    kept, step = place.now(), 0

    def pruned() -> None:
        prune(place.target, [one for one in ("b1", "b2") if one in place.target.ids()])

    while killed_at(monkeypatch, step, pruned):
        assert check(place.target, place.target.ids(), quiet).damaged == []
        assert {"b3", "b4"} <= set(place.target.ids())
        step += 1
    assert step > 2
    assert place.target.ids() == ["b3", "b4"]
    assert place.restored("b4") == kept
    assert check(place.target, ["b3", "b4"], quiet).damaged == []
    prune(place.target, ["b3", "b4"])
    assert [name for name in place.kept() if "/" in name] == []


def test_a_pack_that_others_need_outlives_its_backup(place: Place) -> None:
    """And is no backup that did not come to its end."""
    place.backup()
    place.backup()
    prune(place.target, ["b1"])
    assert "packs/b1" in place.kept() and place.target.unfinished() == []
    place.backup()
    assert place.restored("b2") == place.restored("b3", "latest") == place.now()
    assert [name for name in place.kept() if name.startswith("packs")] == ["packs/b1"], "none that is empty"


def test_a_topic_that_was_made_anew_is_read(place: Place) -> None:
    """Its segment may have got the name and the inode of the one that was deleted."""
    place.put("partition.metadata", b"version: 0\ntopic_id: one\n")
    place.put(f"{9:020d}.log", b"one" * 800)
    place.backup()
    place.put("partition.metadata", b"version: 0\ntopic_id: two\n")
    rewritten(place, f"{9:020d}.log", b"two" * 900)
    place.backup()
    assert place.restored("b2") == place.now()


def test_nothing_is_deleted_where_one_that_stays_is_damaged(place: Place) -> None:
    """The newest may be the damaged one: `--keep 1` would leave nothing that can be restored."""
    before = place.now()
    place.backup()
    place.backup()
    manifest = place.root / "kept/backups/b2"
    manifest.write_bytes(manifest.read_bytes()[:-10])
    kept = place.kept()
    with pytest.raises(Damaged, match="b2 is damaged"):
        prune(place.target, ["b1"])
    assert set(kept) <= set(place.kept())
    prune(place.target, ["b2"])
    assert place.restored("b1") == before
