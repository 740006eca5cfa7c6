"""Defects of the engines, and of what a node makes of a store: bringing, sweeping, looking for a copy."""

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from broker.shared.objects_in_s3 import ObjectsInS3
from broker.shared.postgresql import PostgresqlStore
from tests.mutants.mutant import Change, Mutant
from tests.mutants.over_a_store.lines import Line

ENGINE = "broker.shared.objects_in_s3:ObjectsInS3"
BUCKET = "shared_store/objects/test_faults_of_a_bucket.py::"
LANES = "unit/broker/test_commit_lanes.py::"
LOST_ANSWER = f"{BUCKET}test_a_write_that_fails_is_tried_once_and_made_again_under_another_name[moto-Fault.ANSWER_LOST]"
FAILS = f"{BUCKET}test_a_write_that_fails_is_tried_once_and_made_again_under_another_name[moto-Fault.FAILS]"
NOT_FOR_LONG = f"{BUCKET}test_who_dies_between_bringing_and_committing_leaves_nothing_for_long[moto]"
PLACES = "shared_store/objects/test_where_objects_lie.py::"


def _removed_without_a_look() -> AbstractContextManager[Any]:
    async def collect(self: ObjectsInS3, older_ms: int, limit: int) -> int:
        removed = await PostgresqlStore.collect(self, older_ms, limit)
        await self._remove_given_up()
        await self._remove_leaving()
        return removed

    return mock.patch.object(ObjectsInS3, "collect", collect)


def _code(name: str, line: Line, place: str, old: str, new: str, *caught_by: str) -> tuple[Line, Mutant]:
    return line, Mutant(name, line.happens, (Change(place, old, new),), caught_by)


MUTANTS = (
    _code(
        "a PUT that failed passes for one that came",
        Line.BEFORE_THE_PUT,
        f"{ENGINE}.upload",
        "        raise\n",
        "        pass\n",
        FAILS,
    ),
    _code(
        "an orphan is never swept",
        Line.ORPHAN,
        f"{ENGINE}._sweep",
        "await self._bucket.delete([name for upload_id, name in found.items() if upload_id not in named])",
        "pass",
        NOT_FOR_LONG,
    ),
    _code(
        "what was given up is never removed",
        Line.ORPHAN,
        f"{ENGINE}._remove_given_up",
        "await self._bucket.delete([self._name(upload_id) for upload_id in sorted(given_up)])",
        "pass",
        LOST_ANSWER,
    ),
    _code(
        "what did not come is not known to be given up",
        Line.ORPHAN,
        f"{ENGINE}.upload",
        "self._given_up.add(upload_id)",
        "pass",
        LOST_ANSWER,
    ),
    _code(
        "what leaves is forgotten before it was removed",
        Line.ORPHAN,
        f"{ENGINE}._remove_leaving",
        "        await self._bucket.delete([self._name(upload_id) for upload_id in leaving])\n"
        "        await self._rows(_LEFT, leaving)\n",
        "        await self._rows(_LEFT, leaving)\n"
        "        await self._bucket.delete([self._name(upload_id) for upload_id in leaving])\n",
        f"{BUCKET}test_what_leaves_is_removed_though_it_fails_at_first[moto-Fault.FAILS]",
    ),
    _code(
        "a file of somebody else keeps orphans from being swept",
        Line.ORPHAN,
        f"{ENGINE}._sweep",
        'brought = [name for name in names if _UPLOAD.fullmatch(name.removeprefix(f"{folder}/"))]',
        "brought = names",
        f"{BUCKET}test_what_somebody_else_has_laid_there_stays[moto]",
    ),
    _code(
        "a second PUT has the name of the first",
        Line.SLOW_BUCKET,
        "broker.shared.uploads:Uploads._try",
        "self._next_id(who)",
        "who.number << 32 | 1 << 31 | self._begun",
        f"{LANES}test_what_does_not_come_is_brought_again_under_another_name",
        "stored 3 below 60",
    ),
    _code(
        "a PUT is made again under its name by who makes it",
        Line.SLOW_BUCKET,
        "broker.shared.bucket:Bucket.__init__",
        "self._client(retries=0)",
        "self._client(retries=RETRIES)",
        FAILS,
    ),
    _code(
        "an object is taken for that of another life",
        Line.SLOW_BUCKET,
        f"{ENGINE}._name",
        "{upload_id >> 32:08x}",
        "{0:08x}",
        f"{BUCKET}test_what_is_brought_lies_under_the_cluster_and_the_start[moto]",
    ),
    _code(
        "a small object is taken for another of its size",
        Line.SLOW_BUCKET,
        "broker.shared.small_objects:SmallObjects.whole",
        '    """All of it, see `SharedStore.read`. Raises what `bring` raises, and asks again the next time."""\n',
        "    upload_id = next((one for one, kept in self._kept.items() if kept[1] == size_bytes), upload_id)\n",
        "unit/broker/test_small_objects.py::test_what_was_wanted_longest_ago_goes_first",
    ),
    _code(
        "coordinators wait for the bucket",
        Line.SLOW_BUCKET,
        "broker.shared.commits:SharedCommits._lane_of",
        "is_apart = self._store.keeps_apart and partition.topic not in OF_COORDINATORS",
        "is_apart = self._store.keeps_apart",
        f"{LANES}test_coordinators_do_not_wait_for_the_bucket",
    ),
    _code(
        "more is taken however much waits",
        Line.SLOW_BUCKET,
        "storage.shared.read_memory:ReadMemory.is_full",
        "self.pending_bytes >= self._pending_limit_bytes",
        "False",
        "unit/storage/test_shared_log.py::test_a_log_that_waits_for_too_much_takes_no_writes",
    ),
    _code(
        "a bucket that says nothing is waited for without an end",
        Line.SLOW_BUCKET,
        "broker.shared.bucket:Bucket.put",
        "async with asyncio.timeout(self._patience_s + (len(data) >> 20)):",
        "async with asyncio.timeout(None):",
        f"{BUCKET}test_a_write_that_fails_is_tried_once_and_made_again_under_another_name[moto-Fault.HANGS]",
    ),
    (
        Line.COPY,
        Mutant(
            "what a copy of the database still needs is removed",
            Line.COPY.happens,
            caught_by=(f"{PLACES}test_a_copy_that_starts_beside_the_original_ends_it_before_it_removes_anything",),
            plant=_removed_without_a_look,
        ),
    ),
    _code(
        "a copy of the database starts beside the original",
        Line.COPY,
        f"{ENGINE}._check_history",
        'if not row["known"]:',
        "if False:",
        f"{PLACES}test_a_copy_of_the_database_is_found_out_by_the_starts_that_it_does_not_know",
    ),
    _code(
        "a copy of the database is known by how many starts it has",
        Line.COPY,
        f"{ENGINE}._check_history",
        'if not row["known"]:',
        'if row["last_number"] < last.number:',
        f"{PLACES}test_a_copy_of_the_database_is_found_out_by_the_starts_that_it_does_not_know",
    ),
    _code(
        "a start that is refused signs in the bucket",
        Line.COPY,
        f"{ENGINE}._check_history",
        "        remedy = _REMEDY.format(",
        '        await self._bucket.put(f"{self._folder}/{LAST_START}", _Start(1, "0" * 16).to_bytes())\n'
        "        remedy = _REMEDY.format(",
        f"{PLACES}test_a_copy_of_the_database_is_found_out_by_the_starts_that_it_does_not_know",
    ),
    _code(
        "another bucket of that name is taken for the one that was",
        Line.COPY,
        f"{ENGINE}._try_bucket",
        "if placed is not None and await",
        "if placed is None and await",
        f"{PLACES}test_a_bucket_of_that_name_without_the_objects_is_another",
    ),
    _code(
        "two clusters that share a folder have one between them",
        Line.COPY,
        f"{ENGINE}._name",
        'f"{self._folder}/',
        'f"drawn/',
        f"{PLACES}test_two_clusters_share_a_folder_and_nothing_else",
    ),
)
