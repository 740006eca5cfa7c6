"""What `make sbom` wrote down is what the lock installs: the same packages and versions, each with its licence."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.harness.source_tree import ROOT

WRITTEN = os.environ.get("TALLYSTICK_SBOM")
PINNED = re.compile(r"^([\w.-]+)==([\w.+!-]+)", re.MULTILINE)

pytestmark = pytest.mark.skipif(WRITTEN is None, reason="`make sbom` asks for it")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    assert WRITTEN is not None
    document: dict[str, Any] = json.loads(Path(WRITTEN).read_text())
    return document


def test_each_pinned_package_is_named_with_its_version(document: dict[str, Any]) -> None:
    assert document["bomFormat"] == "CycloneDX"
    pinned = dict(PINNED.findall((ROOT / "requirements" / "runtime.txt").read_text()))
    named = {one["name"].lower().replace("_", "-"): one["version"] for one in document["components"]}
    named.pop("tallystick", None)
    assert named == pinned


SAYS_NONE = {"protobuf"}
"""Their packages name no licence."""


def test_each_has_a_licence(document: dict[str, Any]) -> None:
    assert document["metadata"]["component"]["name"] == "tallystick"
    assert {one["name"] for one in document["components"] if not one.get("licenses")} <= SAYS_NONE
