"""Every system of docs/systems.md beside others on the same instances: writes README.md and rows.csv beside this file.

python reports/systems/measure.py                 # all, some minutes
python reports/systems/measure.py hetseq fred     # some
"""

import csv
import sys
from inspect import getdoc
from pathlib import Path
from typing import Any

from common import Row
from networks import fred, fusionllm, oracle, pipelines, swarm
from training import bottleneck, daso, dct, dear, dlcp, hetseq, karma, local, sharding

from themis_opt.base.version import __version__

FOLDER = Path(__file__).parent
PARTS = (hetseq, daso, sharding, dct, local, dlcp, karma, fusionllm, oracle, pipelines, swarm, fred, bottleneck, dear)


def in_words(value: Any) -> str:
    """A cell."""
    return value if isinstance(value, str) else "-" if value is None else f"{value:.4g}"


def section(name: str, title: str, rows: list[Row]) -> str:
    """A part of the report, folded, its columns those of all its rows."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [
        f'<details markdown="1">\n<summary><b>{name}</b></summary>',
        "",
        title,
        "",
        "| " + " | ".join(columns) + " |",
        "|---" * len(columns) + "|",
    ]
    lines += ["| " + " | ".join(in_words(row.get(column, "")) for column in columns) + " |" for row in rows]
    return "\n".join([*lines, "", "</details>"])


def stored() -> dict[str, list[Row]]:
    """Rows measured before."""
    path, known = FOLDER / "rows.csv", {}
    if path.is_file():
        with path.open(newline="", encoding="utf-8") as file:
            for line in csv.reader(file):
                known.setdefault(line[0], []).append(
                    {k: number(v) for k, v in zip(line[1::2], line[2::2], strict=True)}
                )
    return known


def number(text: str) -> Any:
    """A number where the text is one."""
    try:
        return float(text)
    except ValueError:
        return text or None


def main(chosen: list[str]) -> None:
    """Measure the chosen parts, all by default, and write the report of all that were ever measured."""
    known = stored()
    for part in PARTS:
        if not chosen or part.__name__ in chosen:
            known[part.__name__] = list(part())
            print(section(part.__name__, getdoc(part) or "", known[part.__name__]), flush=True)
            with (FOLDER / "rows.csv").open("w", newline="", encoding="utf-8") as file:
                lines = (
                    [name, *(x for pair in row.items() for x in pair)] for name, rows in known.items() for row in rows
                )
                csv.writer(file).writerows(lines)
    intro = (FOLDER / "findings.md").read_text(encoding="utf-8")
    parts = [section(own.__name__, getdoc(own) or "", known[own.__name__]) for own in PARTS if own.__name__ in known]
    (FOLDER / "README.md").write_text(
        "\n\n".join([intro.rstrip(), *parts]) + f"\n\nthemis_opt {__version__}.\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
