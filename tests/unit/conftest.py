"""No unit test leaves a data folder open: each holds two dozen descriptors, and one process runs two thousand tests."""

from collections.abc import Iterator

import pytest

from broker.disk import local_files


@pytest.fixture(autouse=True)
def every_data_folder_is_given_back() -> Iterator[None]:
    before = set(local_files._locked_here)
    yield
    left = local_files._locked_here - before
    local_files._locked_here -= left
    assert left == set(), "`LocalFiles.close` was not called"
