"""The process that looks at files: `dump FILE...` and `verify DATA_DIR`.

Started by the command line through the guard, as the server is (`tallystick/__main__.py`), which makes sure that the
packages imported here are ours. Exit status: 0 where everything is whole, 1 where it could not be looked at, 3 where
something is damaged.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence

from broker.offline.data_folder import FolderCheck, NoDataFolder
from broker.offline.dumping import Dump, printable
from broker.offline.findings import Findings, Severity
from broker.offline.untouched import InUse, UntouchedFiles, hold
from broker.process.environment import boot_id

OK, FAILED, DAMAGED = 0, 1, 3
_INTERRUPTED = 130


def main(name: str, arguments: Sequence[str]) -> int:
    """Run one of the two."""
    parser = argparse.ArgumentParser(prog=f"tallystick {name}", allow_abbrev=False)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--records", action="store_true")
    parser.add_argument("paths", nargs="+")
    options = parser.parse_args(arguments)
    try:
        return (_dump if name == "dump" else _verify)(options.paths, as_json=options.json, records=options.records)
    except (OSError, InUse, NoDataFolder) as problem:
        if isinstance(problem, BrokenPipeError):
            # What is left in the buffer would be tried again when the interpreter ends, and fail aloud.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return OK
        _complain(str(problem))
        return FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _complain(sentence: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"tallystick: {printable(sentence)}\n")


def _dump(paths: Sequence[str], *, as_json: bool, records: bool) -> int:
    dump = Dump(_say, as_json, records)
    for path in paths:
        dump.file(path)
    sys.stdout.flush()
    for sentence in dump.wrong:
        _complain(sentence)
    return DAMAGED if dump.wrong else OK


def _verify(paths: Sequence[str], *, as_json: bool, records: bool) -> int:
    (root,) = paths
    if not os.path.isdir(root):
        raise NoDataFolder(f"there is no folder {root}")
    descriptor = hold(root)
    check = FolderCheck(UntouchedFiles(root), boot_id(), open_records=records)
    if sys.stderr.isatty():
        check.on_log = _progress
    try:
        check.run()
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    (_show_json if as_json else _show)(root, check.findings)
    sys.stdout.flush()
    return DAMAGED if check.findings.of(Severity.DAMAGE) else OK


def _progress(done: int, logs: int) -> None:
    sys.stderr.write(f"\r{done * 100 // logs:3} % of {logs} logs\r")


def _show_json(root: str, findings: Findings) -> None:
    said = {
        "folder": root,
        "whole": not findings.of(Severity.DAMAGE),
        "logs": findings.logs,
        "segments": findings.segments,
        "batches": findings.batches,
        "sizeBytes": findings.size_bytes,
        "findings": [
            {"severity": one.severity.value, "file": one.file, "position": one.position, "what": one.what}
            for one in findings.found
        ],
    }
    _say(json.dumps(said, indent=2))


def _show(root: str, findings: Findings) -> None:
    for one in findings.found:
        _say(printable(one.line()))
    looked = (
        f"{findings.logs} logs, {findings.segments} segments, {findings.batches} batches, {findings.size_bytes} bytes"
    )
    damaged, mended = findings.of(Severity.DAMAGE), findings.of(Severity.RECOVERY)
    verdict = f"{damaged} damaged" if damaged else "whole"
    left = f"; {mended} left by a crash, which the next start mends" if mended else ""
    _say(f"{printable(root)}: {looked}: {verdict}{left}")
