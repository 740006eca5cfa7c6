"""What a fresh machine takes over from this one."""

import os
from pathlib import Path

import pytest

from tests.fresh import here
from tests.fresh.__main__ import NOT_HERE, main, said_at_the_end


def test_the_mirror_is_the_one_apt_uses() -> None:
    targets = "Node https://node.example/\nDebian http://a.example/debian-security/\nDebian http://b.example/debian/\n"
    assert here.mirror_of(targets) == "http://b.example/debian"
    assert here.mirror_of("") == here.DEBIAN


def test_settings_of_pip_become_variables() -> None:
    listed = "global.index-url='https://index.example/simple'\nglobal.find-links='/opt/here'\nfreeze.all='1'\n"
    environment = {"PIP_TIMEOUT": "9", "PIP_INDEX_URL": "https://other.example", "HOME": "/here"}
    assert here.pip_settings(listed, environment) == {"PIP_INDEX_URL": "https://other.example", "PIP_TIMEOUT": "9"}


def test_certificates_are_taken_from_the_environment(tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_text("")
    found = here.settings_of_here({"PIP_CERT": str(tmp_path / "missing.pem"), "SSL_CERT_FILE": str(trusted)})
    assert found.certificates in (str(trusted), *(os.environ.get(name) for name in here.CERTIFICATES))


def test_where_no_machine_can_be_made_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(here, "TOOLS", ("a-tool-that-nobody-has",))
    assert main([]) == NOT_HERE
    assert "a-tool-that-nobody-has is not installed" in capsys.readouterr().out


def test_what_was_skipped_is_counted_by_reason() -> None:
    lines = [
        "SKIPPED [2] tests/a/test_a.py:12: no Java",
        "no Java: the tests of Spark are skipped",
        "SKIPPED [3] tests/b.py:1: no Java",
        "SKIPPED [1] tests/b.py:2: no git",
        "6 passed, 6 skipped in 1.00s",
    ]
    assert said_at_the_end(lines) == [
        "5 skipped: no Java",
        "1 skipped: no git",
        "no Java: the tests of Spark are skipped",
        "6 passed, 6 skipped in 1.00s",
    ]
