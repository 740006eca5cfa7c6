"""Every command in the manual, with what it ends with; shells complete them."""

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from distributions.manual.__main__ import main as write_manual
from distributions.manual.described import GENERAL_STATUS, commands
from tallystick.cli.commands import COMPLETING, GROUPS, whole
from tallystick.cli.completion import SHELLS, completion


def test_every_command_says_what_it_ends_with_and_has_the_same_manner() -> None:
    found = {one.path: one for one in commands()}
    assert {f"tallystick {name}" for name in (*GROUPS, "serve", "demo")} < found.keys()
    assert [name for name in GROUPS if "Status " not in (import_module(GROUPS[name][0]).__doc__ or "")] == []
    general = [one.path for one in found.values() if one.status == GENERAL_STATUS and not one.below]
    assert general == ["tallystick version"]
    silent = [one.path for one in found.values() if not one.text]
    assert silent == []
    asking = [
        one for one in found.values() if any(option.names.startswith("--bootstrap-server") for option in one.options)
    ]
    assert len(asking) > 25
    without_json = [one.path for one in asking if not any(option.names.startswith("--json") for option in one.options)]
    assert without_json == ["tallystick console"]


def test_pages_for_man(tmp_path: Path) -> None:
    write_manual(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"{one.path.replace(' ', '-')}.1" for one in commands()}
    text = (tmp_path / "tallystick-topics-create.1").read_text()
    assert '.TH "TALLYSTICK-TOPICS-CREATE" "1"' in text and r"\-\-if\-not\-exists" in text
    assert re.search(r"^\.SH EXIT STATUS\n0 when it is shown or done", text, re.MULTILINE)
    requests = {
        line.split()[0] for path in tmp_path.iterdir() for line in path.read_text().splitlines() if line[:1] == "."
    }
    assert requests <= {".TH", ".SH", ".B", ".TP", ".PP"}
    if (groff := shutil.which("groff")) is None:
        pytest.skip("there is no groff, which would have read them all")
    words = [groff, "-man", "-Tutf8", "-ww", *sorted(tmp_path.iterdir())]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def completed(incomplete: str, *words: str) -> list[str]:
    asked = BashComplete(whole(), {}, "tallystick", COMPLETING)
    return [one.value for one in asked.get_completions(list(words), incomplete)]


def test_shells_complete_commands_and_options() -> None:
    assert completed("to") == ["topics"] and completed("cr", "topics") == ["create"]
    assert completed("--if", "topics", "create") == ["--if-not-exists"]
    assert completed("", "consume", "--format") == ["text", "json", "hex", "template"]
    assert completed("", "completion") == list(SHELLS)
    assert completed("--adv", "serve") == ["--advertised-listeners", "--advertised-listeners-file"]
    assert completed("", "serve", "--durability") == ["fsync", "page-cache"]
    assert completed("./", "serve", "--data-dir") == ["./"], "a path, which the shell knows"
    for shell in SHELLS:
        done = CliRunner().invoke(completion, [shell])
        assert done.exit_code == 0 and f"{COMPLETING}={shell}_complete" in done.output
    assert CliRunner().invoke(completion, ["tcsh"]).exit_code == 2


def test_a_shell_is_answered() -> None:
    asked = {COMPLETING: "bash_complete", "COMP_WORDS": "tallystick transactions find", "COMP_CWORD": "2"}
    command = [sys.executable, "-m", "tallystick"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | asked, timeout=60, check=False)
    assert done.stdout == "plain,find-hanging\n", done.stderr
