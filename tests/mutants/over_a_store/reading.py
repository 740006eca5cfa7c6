"""Defects of what a node makes of what lies in the store: whether it is damaged, and what of it is read ahead."""

from tests.mutants.mutant import Change, Mutant
from tests.mutants.over_a_store.lines import Line

CHECKED = "storage.shared.checked_run:checked_batches"
STRETCH_IN = "broker.shared.reading.stretches:stretch_in"
STRETCH_AT = "broker.shared.bringing:_stretch_at"
SOURCE = "broker.shared.bringing:LogSource"
AHEAD = "broker.shared.reading.ahead"
BUCKET = "shared_store/objects/test_faults_of_a_bucket.py::"
NAMED = "shared_store/objects/test_damaged_objects.py::test_a_byte_that_is_wrong_is_said_with_the_name_of_the_object"
PASSED_OVER = "shared_store/test_damage.py::test_what_is_changed_in_a_run_is_passed_over_by_nobody"
WITH_CHECKSUMS = f"{PASSED_OVER}[model-with-checksums]"
AS_BEFORE = f"{PASSED_OVER}[model-as-before]"
BY_OTHERS = "unit/storage/test_checked_runs.py::test_what_others_have_written_since_a_look_is_no_damage"
IN_A_STORE = "unit/storage/test_damage_in_a_store.py::"
BROUGHT = "unit/reading_ahead/test_what_is_brought.py::"
WRONG = "unit/reading_ahead/test_what_goes_wrong.py::"
STRETCH = "return await stretch_in(store, wanted, offset, name, known, after_epoch=after_epoch)\n"
"""At the end of `_stretch_at`."""


def _code(name: str, line: Line, change: Change | tuple[Change, ...], *caught_by: str) -> tuple[Line, Mutant]:
    return line, Mutant(name, line.happens, change if isinstance(change, tuple) else (change,), caught_by)


def _passed_over(condition: str) -> str:
    """What lies behind is taken for what was asked for."""
    return (
        "try:\n"
        f"        {STRETCH}"
        "    except LogDamaged as damaged:\n"
        f"        if {condition}:\n"
        "            return await _stretch_at(store, log_id, damaged.next_offset, name, known, after_epoch)\n"
        "        raise\n"
    )


OF_DAMAGE = (
    _code(
        "checksums of what comes from the store are not looked at",
        Line.DAMAGED,
        Change(CHECKED, "if crc32c(view[position + ATTRIBUTES_AT : behind]) != crc:", "if False:"),
        f"{IN_A_STORE}test_what_is_damaged_between_what_is_not_is_said_and_not_passed_over",
        NAMED,
    ),
    _code(
        "checksums of heads are not looked at",
        Line.DAMAGED,
        Change(CHECKED, "if run.heads_crc is not None and heads_crc(found.batches) != run.heads_crc:", "if False:"),
        WITH_CHECKSUMS,
    ),
    _code(
        "a batch of a run without a checksum of heads may lie anywhere",
        Line.DAMAGED,
        Change(CHECKED, "if base_offset < offset or leader_epoch < epoch or is_too_late:", "if False:"),
        AS_BEFORE,
    ),
    _code(
        "a batch may be of an epoch that has not come yet",
        Line.DAMAGED,
        Change(CHECKED, "leader_epoch < epoch or is_too_late", "leader_epoch < epoch"),
        AS_BEFORE,
    ),
    _code(
        "a run may end before its end",
        Line.DAMAGED,
        Change(CHECKED, "if end != run.size_bytes or offset != run.last_offset + 1:", "if False:"),
        AS_BEFORE,
    ),
    _code(
        "what others have written since a look is taken for damage",
        Line.DAMAGED,
        Change(
            CHECKED,
            "leader_epoch > known.latest_epoch and base_offset < known.end_offset",
            "leader_epoch > known.latest_epoch",
        ),
        BY_OTHERS,
    ),
    _code(
        "a run that is damaged is passed over",
        Line.DAMAGED,
        Change(STRETCH_IN, "break  # It is said to who asks for what lies there.", "continue"),
        f"{IN_A_STORE}test_what_is_damaged_between_what_is_not_is_said_and_not_passed_over",
    ),
    _code(
        "a reader goes on behind what is damaged",
        Line.DAMAGED,
        (
            Change(STRETCH_AT, STRETCH, _passed_over("type(damaged.__cause__).__name__ == 'CorruptRecords'")),
            Change(
                f"{SOURCE}._bring",
                "log.arrived(offset, damaged)",
                "log_id, behind = log.owned.log_id, damaged.next_offset\n"
                "            log.arrived(offset, await _stretch_at(self._store, log_id, behind, log.name, known))",
            ),
        ),
        f"{IN_A_STORE}test_a_reader_is_told_what_is_damaged_and_not_what_lies_behind",
        AS_BEFORE,
    ),
    _code(
        "what is lost is passed over",
        Line.DAMAGED,
        Change(STRETCH_AT, STRETCH, _passed_over("type(damaged.__cause__).__name__ == 'ObjectLost'")),
        f"{IN_A_STORE}test_what_is_lost_is_said_and_not_passed_over",
    ),
    _code(
        "a log is taken over as far as it is not damaged",
        Line.DAMAGED,
        Change(
            "broker.shared.bringing:tail_of",
            "        except ObjectMissing as missing:",
            "        except LogDamaged:\n            break\n        except ObjectMissing as missing:",
        ),
        AS_BEFORE,
        NAMED,
    ),
    _code(
        "a stretch that is shorter than it was is served",
        Line.DAMAGED,
        Change(
            "broker.shared.bucket:Bucket.get",
            "if any(len(one) != size for one, (_, size) in zip(whole, stretches, strict=True)):",
            "if False:",
        ),
        f"{BUCKET}test_an_object_that_was_cut_is_lost_aloud",
    ),
)

OF_READING_AHEAD = (
    _code(
        "what is ahead is served though it was written anew",
        Line.AHEAD,
        Change(f"{AHEAD}:AheadOfLog.forget_before", "if reader.begins < offset:", "if False:"),
        f"{WRONG}test_what_was_written_anew_is_not_read_as_it_was",
    ),
    _code(
        "what is not committed is brought ahead",
        Line.AHEAD,
        Change(f"{AHEAD}:_Reader._is_away", " and one.run.last_offset < log.durable_offset", ""),
        f"{BROUGHT}test_what_others_have_committed_meanwhile_is_not_this_nodes_to_read",
    ),
    _code(
        "what goes wrong ahead is waited for without an end",
        Line.AHEAD,
        Change(f"{AHEAD}:_Piece.end", "self.over.set_result(None)", "self.over.done()"),
        f"{WRONG}test_who_waits_for_what_fails_ahead_has_it_brought_anew",
    ),
    _code(
        "more is ahead than its limit",
        Line.AHEAD,
        Change(f"{AHEAD}:ReadingAhead.reserve", "if self.held_bytes + size_bytes > self.limit_bytes:", "if False:"),
        f"{BROUGHT}test_the_limit_holds_to_the_byte",
    ),
    _code(
        "what is ahead stays where writers are sent back",
        Line.AHEAD,
        Change(f"{AHEAD}:ReadingAhead.is_possible", "if self._memory.is_full:", "if False:"),
        f"{BROUGHT}test_it_goes_where_writers_are_sent_back",
    ),
)
MUTANTS = (*OF_DAMAGE, *OF_READING_AHEAD)
