"""What a broker says of a damaged log in a store: no command of ours repairs it."""

import logging

import pytest

from broker.partitions.errors import storage_error
from storage.log import LogDamaged


def test_no_command_is_named_where_none_helps(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        storage_error(LogDamaged("t-0", None, 3, "a checksum is wrong"))
    (record,) = caplog.records
    assert vars(record)["fields"] == {}
