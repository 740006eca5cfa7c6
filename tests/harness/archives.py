"""Archives that tests unpack."""

import tarfile
from pathlib import Path


def unpack_archive(archive: Path, folder: Path) -> None:
    """What is in it, into a folder. Pythons before 3.11.4, Debian 12's among them, know no filters (PEP 706) and refuse
    the argument; they are not told, and the archives are ours."""
    with tarfile.open(archive) as entries:
        if hasattr(tarfile, "data_filter"):
            entries.extraction_filter = tarfile.data_filter
        entries.extractall(folder)
