"""What becomes of every setting of Java's clients in the Spark connector: the table in `docs/spark.md`.

python -m tests.harness.spark_settings [--write]
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence

from spark_connector import stock_settings
from spark_connector.options import SINK, Option
from spark_connector.source.settings import SOURCE
from tests.harness import jars
from tests.harness.generated_table import DOCS, GeneratedTable

HEAD = "| setting | `kafka-eos` | `kafka-arrow` |\n|---|---|---|\n"
PREFIX = "kafka."
CLIENTS = {
    "kafka-eos": ("producer.ProducerConfig",),
    "kafka-arrow": ("consumer.ConsumerConfig", "admin.AdminClientConfig"),
}
"""Whose settings Spark's own connector hands on, by our format that does the same."""
_NAME = re.compile(r'<h4><a id="[^"_]*configs_([^"]+)"|<h4><a id="([^"_]+)"')

Table = tuple[Sequence[Option], Mapping[str, str], Mapping[str, str]]
"""Options, what is without effect, what is refused."""
TABLES: dict[str, Table] = {
    "kafka-eos": (SINK, stock_settings.OF_THE_SINK, stock_settings.REFUSED_BY_THE_SINK),
    "kafka-arrow": (SOURCE, stock_settings.OF_THE_SOURCE, stock_settings.REFUSED_BY_THE_SOURCE),
}


def names_of_java(jar_set: str, client: str) -> set[str]:
    """All settings of a client, from its own description of itself. Raises `JarsMissing`."""
    java = jars.java()
    if java is None:
        raise jars.JarsMissing("no Java")
    classes = (jars.class_path(jar_set), jars.class_path("kafka"))  # the second has what the first logs with
    command = [java, "-cp", os.pathsep.join(classes), f"org.apache.kafka.clients.{client}"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {one or other for one, other in _NAME.findall(told)}


def what_becomes_of(name: str, table: Table) -> str | None:
    """In a sentence; None where nobody has thought of it."""
    options, without_effect, refused = table
    by_name = {option.name: option for option in options}
    if name in by_name:
        option = by_name[name]
        default = "" if option.default in (None, "") else f" (`{option.default}`)"
        return f"{option.meaning}{default}"
    if name in refused:
        return f"**refused**: {refused[name]}"
    if name in without_effect:
        return f"without effect: {without_effect[name]}"
    return None


def table() -> str:
    names = sorted(
        {
            name
            for options, without_effect, refused in TABLES.values()
            for name in (*(option.name for option in options), *without_effect, *refused)
            if name.startswith(PREFIX)
        }
    )
    rows = []
    for name in names:
        cells = [what_becomes_of(name, TABLES[one]) for one in CLIENTS]
        same = cells[0] == cells[1]
        written = [cells[0], "the same"] if same else [cell or "not known, refused" for cell in cells]
        rows.append(f"| `{name}` | {written[0]} | {written[1]} |\n")
    return HEAD + "".join(rows)


TABLE = GeneratedTable(DOCS / "spark.md", "<!-- settings: `make docs` -->\n", table)


if __name__ == "__main__":
    sys.exit(TABLE.main())
