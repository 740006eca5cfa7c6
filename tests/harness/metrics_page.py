"""The table of metrics in docs/metrics.md, made of the tables of the code.

python -m tests.harness.metrics_page --write
"""

import sys

from broker.http.metrics.collecting import METRICS
from tests.harness.generated_table import DOCS, GeneratedTable


def table() -> str:
    rows = [
        f"| `{one.name}` | {one.kind.value} | {', '.join(f'`{label}`' for label in one.labels)} | {one.says} |"
        for one in METRICS
    ]
    return "\n".join(["| name | kind | labels | what it says |", "|---|---|---|---|", *rows, ""])


TABLE = GeneratedTable(DOCS / "metrics.md", "<!-- the metrics: made by `make docs` -->\n", table)


if __name__ == "__main__":
    sys.exit(TABLE.main())
