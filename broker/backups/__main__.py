"""The process that makes backups and restores them: `create`, `list`, `check`, `prune`, `restore`.

Started by the command line through the guard, as the server is (`tallystick/__main__.py`). Exit status: 0 when it is
done, 1 when it is not, 3 where a backup is damaged.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from broker.backups.asking import BrokerAsked
from broker.backups.copying import Copied, copy
from broker.backups.manifest import Head, Manifest
from broker.backups.pieces import Damaged
from broker.backups.pruning import check, prune
from broker.backups.restoring import restore
from broker.backups.source import Source, of_moment, of_stopped
from broker.backups.target import Refused, Target, in_order
from broker.config.broker_config import ConfigError
from broker.offline.dumping import printable
from broker.offline.untouched import InUse, hold

OK, FAILED, DAMAGED = 0, 1, 3
_INTERRUPTED = 130
Said = dict[str, object]
_ID = re.compile(r"\d{8}T\d{6}Z(-\d+)?")
"""As they are made here: somebody may have put another file beside the backups."""


def main(name: str, arguments: Sequence[str]) -> int:
    """Run one of them."""
    options = _options(name, arguments)
    try:
        return COMMANDS[name](options)
    except Damaged as problem:
        return _complain(str(problem), DAMAGED)
    except (Refused, InUse, ConfigError, OSError) as problem:
        if isinstance(problem, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return OK
        written_to = options.data_dir if name == "restore" else options.target
        return _complain(_told(problem, written_to) if isinstance(problem, OSError) else str(problem), FAILED)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _told(error: OSError, written_to: str) -> str:
    """A write that is refused names no file."""
    return f"{error.filename or written_to}: {error.strerror or error}"


def _options(name: str, arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"tallystick backup {name}", allow_abbrev=False)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--data-dir")
    parser.add_argument("--http")
    parser.add_argument("--http-token-file")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--keep", type=int)
    parser.add_argument("--remove", action="append", default=[])
    parser.add_argument("--backup")
    parser.add_argument("target")
    return parser.parse_args(arguments)


def _create(options: argparse.Namespace) -> int:
    if options.http is not None:
        with BrokerAsked(options.http, options.http_token_file, time.sleep).moment() as folder:
            return _create_of(options, of_moment(folder), os.path.dirname(os.path.dirname(folder)))
    root = os.path.realpath(options.data_dir)
    try:
        descriptor = hold(root)
    except InUse as problem:
        raise Refused(
            f"{str(problem).partition(':')[0]}: back it up through its HTTP side (--http), or stop the broker"
        ) from None
    try:
        return _create_of(options, of_stopped(root), root)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _create_of(options: argparse.Namespace, source: Source, root: str) -> int:
    target = Target(options.target)
    if os.path.commonpath([os.path.realpath(target.root), os.path.realpath(root)]) == os.path.realpath(root):
        raise Refused(f"{target.root} is in the data folder: choose another")
    target.prepare(source.whose)
    with target.writing():
        # To link the files takes seconds: what was acknowledged meanwhile is not in it, and its id does not say so.
        taken_ms = time.time_ns() // 1_000_000 if source.taken_ms is None else source.taken_ms
        whose = source.whose
        head = Head(_free_id(target, taken_ms), taken_ms, whose.cluster_id, whose.node_id, source.life, source.running)
        copied = copy(source, target, head, _progress(), whole=options.whole)
    for left in copied.cleaned:
        _complain(f"the backup {left} had not come to its end, and was cleaned away", OK)
    said = _described(copied)
    line = (
        f"{said['id']}: {said['files']} files, {said['bytes']} bytes, of which {said['newBytes']} are new in "
        f"{target.root}"
    )
    return _show(options, said, [line])


def _free_id(target: Target, taken_ms: int) -> str:
    """The time of day, with a number where there was one in the same second. It is behind all others, so that they
    sort: where the clock went back, it has the time of the newest."""
    stem, number = datetime.fromtimestamp(taken_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ"), 1
    if known := [one for one in target.ids() if _ID.fullmatch(one)]:
        newest, last = in_order(known[-1])
        if newest >= stem:
            stem, number = newest, last + 1
    while target.is_used(found := stem if number == 1 else f"{stem}-{number}"):
        number += 1
    return found


def _described(copied: Copied) -> Said:
    return {**_head(copied.manifest), "readBytes": copied.read_bytes, "cleaned": copied.cleaned}


def _head(made: Manifest) -> Said:
    return {
        "id": made.head.id,
        "takenMs": made.head.taken_ms,
        "clusterId": made.head.cluster_id,
        "nodeId": made.head.node_id,
        "running": made.head.running,
        "files": len(made.files),
        "bytes": made.size_bytes,
        "newBytes": made.new_bytes,
    }


def _list(options: argparse.Namespace) -> int:
    target = Target(options.target)
    target.whose()
    found: list[Said] = []
    lines = []
    for backup_id in target.ids():
        try:
            said = {**_head(target.read(backup_id)), "state": "whole"}
            lines.append(f"{backup_id}  {said['files']} files  {said['bytes']} bytes  {said['newBytes']} new")
        except Damaged as problem:
            said = {"id": backup_id, "state": "damaged"}
            lines.append(f"{backup_id}  damaged: {problem}")
        found.append(said)
    for backup_id in target.unfinished():
        found.append({"id": backup_id, "state": "unfinished"})
        lines.append(f"{backup_id}  unfinished: it is under way, or did not come to its end")
    damaged = any(said["state"] == "damaged" for said in found)
    return _show(options, found, lines or ["there is none"]) or (DAMAGED if damaged else OK)


def _check(options: argparse.Namespace) -> int:
    target = Target(options.target)
    target.whose()
    with target.reading():
        ids = target.ids() if options.backup is None else [options.backup]
        found = check(target, ids, _progress())
    said: Said = {
        "whole": not found.damaged,
        "backups": found.backups,
        "pieces": found.pieces,
        "bytes": found.size_bytes,
        "damaged": found.damaged,
    }
    verdict = f"{len(found.damaged)} damaged" if found.damaged else "whole"
    line = f"{target.root}: {_backups(found.backups)}, {found.pieces} pieces, {found.size_bytes} bytes: {verdict}"
    return _show(options, said, [*found.damaged, line]) or (DAMAGED if found.damaged else OK)


def _prune(options: argparse.Namespace) -> int:
    target = Target(options.target)
    target.whose()
    known = target.ids()
    if unknown := [one for one in options.remove if one not in known]:
        raise Refused(f"there is no backup {unknown[0]} in {target.root}")
    removed = set(options.remove)
    if options.keep is not None:
        removed |= set(known[: max(0, len(known) - options.keep)])
    done = prune(target, sorted(removed))
    said: Said = {"removed": done.removed, "freedBytes": done.freed_bytes}
    return _show(options, said, [f"{_backups(len(done.removed))} removed, {done.freed_bytes} bytes freed"])


def _backups(count: int) -> str:
    return f"{count} {'backup' if count == 1 else 'backups'}"


def _restore(options: argparse.Namespace) -> int:
    target = Target(options.target)
    target.whose()
    folder = os.path.abspath(options.data_dir)
    with target.reading():
        backup_id = target.latest() if options.backup is None else options.backup
        manifest = target.read(backup_id)
        restore(target, manifest, folder, _progress())
    said = {**_head(manifest), "dataDir": folder}
    return _show(options, said, [f"{folder}: {said['files']} files, {said['bytes']} bytes, of {backup_id}"])


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "create": _create,
    "list": _list,
    "check": _check,
    "prune": _prune,
    "restore": _restore,
}


def _show(options: argparse.Namespace, said: Said | list[Said], lines: Sequence[str]) -> int:
    text = json.dumps(said, indent=2) if options.json else "\n".join(map(printable, lines))
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
    return OK


def _complain(sentence: str, status: int) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"tallystick: {printable(sentence)}\n")
    return status


def _progress() -> Callable[[int, int], None]:
    """On a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda done, total: None
    shown = -1

    def show(done: int, total: int) -> None:
        nonlocal shown
        percent = done * 100 // max(total, 1)
        if percent != shown:
            shown = percent
            sys.stderr.write(f"\r{percent:3} % of {total} bytes" + ("\n" if percent >= 100 else "\r"))

    return show
