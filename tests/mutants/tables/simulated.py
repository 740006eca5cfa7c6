"""The defects that the simulation keeps in a table of its own; where a quicker test notices one, too, it is named."""

from tests.mutants.mutant import SEEDS, Mutant
from tests.simulation.defects import DEFECTS

SOONER: dict[str, tuple[str, ...]] = {
    "last stable offset one too far": (
        "unit/partition/test_transactions_in_a_partition.py::"
        "test_a_transaction_hides_what_follows_until_its_marker_is_committed",
    ),
    "sync does nothing": ("unit/storage/test_segment_log.py::test_a_flush_syncs_logs_before_folders",),
    "duplicate cache off": (
        "unit/partition/test_producer_rules.py::test_any_order_of_retries_appends_every_batch_once",
    ),
    "duplicate cache of one": (
        "unit/partition/test_producer_rules.py::test_only_the_last_five_batches_are_remembered",
    ),
    "epoch check skipped": (
        "unit/partition/test_transactions_in_a_partition.py::test_a_fenced_producer_hears_of_its_epoch_first",
    ),
    "a replacement is thrown away with what it replaced": (
        "unit/partition/test_compaction.py::test_a_disk_that_refuses_a_rename_loses_nothing",
    ),
    "guard not compared": (
        "unit/partition/test_transactions_in_a_partition.py::test_a_transaction_begins_with_the_current_guard_only",
    ),
    "pending offsets are no reason to wait": (
        "unit/groups/test_transactional_offsets.py::test_only_the_partitions_of_the_transaction_are_unstable",
    ),
}

MUTANTS = tuple(
    Mutant(
        defect.name,
        defect.origin,
        caught_by=(*SOONER.get(defect.name, ()), f"simulation {min(defect.seeds, SEEDS)}"),
        plant=defect.plant,
    )
    for defect in DEFECTS.values()
)
