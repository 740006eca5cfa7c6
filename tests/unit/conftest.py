"""No unit test leaves a data folder open: each holds two dozen descriptors, and one process runs two thousand tests."""

from collections.abc import Iterator

import pytest

from broker.disk import local_files


@pytest.fixture(autouse=True)
def every_data_folder_is_given_back() -> Iterator[None]:
    yield
    left = set(local_files._locked_here)
    local_files._locked_here.clear()
    assert left == set(), "`LocalFiles.close` was not called"
