"""The families of APIs this broker serves: importing them fills the catalogue."""

import importlib
import os

from broker.catalogue import CATALOGUE, Entry

FAMILIES = ("produce", "fetch", "offsets", "metadata", "topics", "configs", "transactions", "groups", "group_offsets")


def load_handlers() -> dict[int, Entry]:
    """The whole catalogue."""
    for name in FAMILIES:
        if os.path.exists(os.path.join(os.path.dirname(__file__), "handlers", name + ".py")):
            importlib.import_module("broker.handlers." + name)
    return CATALOGUE
