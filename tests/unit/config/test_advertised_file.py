"""The file with the addresses that clients are told: looked for again until it is there and whole."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.config.advertised_file import ENDING, wait_for_line
from broker.config.sources import ConfigError


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What happens while it waits: at each look one thing, or a signal."""

    def happens(*things: Callable[[], object] | int) -> None:
        left = list(things)

        def wait(signals: object, _seconds: float) -> int | None:
            assert signals == ENDING
            thing = left.pop(0)
            if isinstance(thing, int):
                return thing
            thing()
            return None

        monkeypatch.setattr(signal, "sigtimedwait", wait)

    return happens


def test_half_a_line_is_not_taken(tmp_path: Path, meanwhile: Callable[..., None]) -> None:
    told = tmp_path / "told"
    texts = ("", "PLAINTEXT://host:1", "PLAINTEXT://host:123", "PLAINTEXT://host:1234\nmore")
    meanwhile(*(lambda text=text: told.write_text(text) for text in texts))
    assert wait_for_line(str(told)) == "PLAINTEXT://host:1234"


def test_a_signal_ends_the_waiting(tmp_path: Path, meanwhile: Callable[..., None]) -> None:
    meanwhile(lambda: None, signal.SIGTERM)
    assert wait_for_line(str(tmp_path / "told")) is None


def test_a_folder_and_what_is_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "told").write_bytes(b"\xff\n")
    for name, sentence in (("told", "told cannot be read"), (".", "cannot be read: .*directory")):
        with pytest.raises(ConfigError, match=sentence):
            wait_for_line(str(tmp_path / name))
