"""What Spark's workers are spared."""

import gc

from spark_connector.workers import keep_what_is_loaded


def test_loaded_objects_are_frozen_once_per_part() -> None:
    """Garbage that comes later is collected as ever: nothing is kept a second time."""
    try:
        for part in ("one", "other"):
            keep_what_is_loaded(part)
            assert gc.get_freeze_count() > 1000
            gc.unfreeze()
            keep_what_is_loaded(part)
            assert gc.get_freeze_count() == 0
    finally:
        gc.unfreeze()
