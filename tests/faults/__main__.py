"""Run attacks and say what their faults came to: ``python -m tests.faults --minutes 10 [NAME …]``.

Without a name, all of them one after the other. A name may be the beginning of several (``kill``). Each attack stops
after its minutes, or when it has tried as many faults as it knows to be enough. The exit status is 1 if anything was
silently wrong or crashed.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import os
import pkgutil
import random
import sys
import tempfile
import traceback
from contextlib import ExitStack
from pathlib import Path

from tests.faults.attack import ATTACKS, OUTCOMES, Run

# One thread each: children are forked from a warm parent, and a fork takes no thread pool with it.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"

BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"


def load() -> None:
    """Import every file of this folder, each of which registers its attacks."""
    package = Path(__file__).parent
    for module in pkgutil.iter_modules([str(package)]):
        if module.name != "__main__":
            importlib.import_module(f"tests.faults.{module.name}")


def table(results: dict[str, dict]) -> str:
    """Return the results as a table in Markdown."""
    head = ["attack", "what it does", "faults tried", *OUTCOMES.values(), "beside"]
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "--:|" * (len(OUTCOMES) + 1) + "---|"]
    for name in sorted(results):
        row = results[name]
        counts = [row["counts"].get(outcome, 0) for outcome in OUTCOMES]
        beside = ", ".join(f"{key} {value}" for key, value in row["notes"].items())
        cells = [f"`{name}`", row["what"], *(f"{count:,}" for count in (sum(counts), *counts)), beside]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


GROUPS = {
    "changed": "files that change while they are read",
    "disk": "full and read-only disks",
    "filters": "filters over all types",
    "flip": "damaged files",
    "forged": "forged manifests and models",
    "http": "abuse of the service",
    "images": "damaged images",
    "kill": "`kill -9` of a command",
    "memory": "small files that ask for much memory",
    "vectors": "vectors from 1e-37 to 1e38",
    "writers": "four writers of one index",
}
"""What the first word of an attack's name stands for."""


def summary(results: dict[str, dict]) -> str:
    """Return the sums of each group of attacks as a table in Markdown."""
    groups: dict[str, list[dict]] = {}
    for name in sorted(results):
        first = name.partition("-")[0]
        groups.setdefault(GROUPS.get(first, f"`{first}`"), []).append(results[name]["counts"])
    lines = ["| what | attacks | faults tried | right or rebuilt | refused | failed |", "|:--|" + "--:|" * 5]
    for group, rows in groups.items():
        right, refused, *failed = (sum(row.get(outcome, 0) for row in rows) for outcome in OUTCOMES)
        counts = len(rows), right + refused + sum(failed), right, refused, sum(failed)
        lines.append(f"| {group} | " + " | ".join(f"{count:,}" for count in counts) + " |")
    return "\n".join(lines)


def write_csv(results: dict[str, dict], file: Path) -> None:
    """Write a line for each attack."""
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(["attack", "what it does", "seed", *OUTCOMES.values(), "beside"])
        for name in sorted(results):
            row = results[name]
            counts = [row["counts"].get(outcome, 0) for outcome in OUTCOMES]
            beside = "; ".join(f"{key} {value}" for key, value in row["notes"].items())
            writer.writerow([name, row["what"], row["seed"], *counts, beside])


def execute(name: str, shared: Path, seed: int, minutes: float, enough: float | None, only: int | None) -> dict:
    """Run one attack in a folder of its own, and return what is kept of it."""
    attack = ATTACKS[name]
    with tempfile.TemporaryDirectory(dir=shared, prefix=f"{name}-") as folder:
        run = Run(name, Path(folder), shared, seed, minutes, attack.enough if enough is None else enough, only)
        try:
            attack.program(run)
        except Exception:
            run.count("crashed", f"the attack itself stopped\n{traceback.format_exc()}")
    return {
        "what": attack.what,
        "seed": seed,
        "counts": dict(run.counts),
        "notes": run.notes,
        "findings": run.findings,
    }


def main(stack: ExitStack) -> int:
    """Run the attacks asked for, print their table, and keep it where asked."""
    load()
    parser = argparse.ArgumentParser(
        "python -m tests.faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="attacks:\n" + "\n".join(f"  {name:24}{ATTACKS[name].what}" for name in sorted(ATTACKS)),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="attacks, or beginnings of their names")
    parser.add_argument("--minutes", type=float, default=10, help="for each attack, at most; 10 by default")
    parser.add_argument("--faults", type=int, help="for each attack, at most; by default what it knows to be enough")
    parser.add_argument("--seed", type=int, help="of the random numbers; by default a new one")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="repeat this fault alone")
    parser.add_argument("--json", type=Path, help="a file that the results are put in, beside those of other attacks")
    parser.add_argument(
        "--page", type=Path, help="a page whose table is replaced by the sums of --json; PAGE.csv has all"
    )
    given = parser.parse_args()
    seed = random.randrange(10**6) if given.seed is None else given.seed
    chosen = [name for name in sorted(ATTACKS) if name.startswith(tuple(given.names) or "")]
    if not chosen:
        parser.error(f"no attack is called {' or '.join(given.names)}; there are {', '.join(sorted(ATTACKS))}")
    results = {}
    shared = stack.enter_context(tempfile.TemporaryDirectory(prefix="lbhash-faults-"))
    for name in chosen:
        results[name] = execute(name, Path(shared), seed, given.minutes, given.faults, given.only)
        counts = ", ".join(f"{count:,} {OUTCOMES[outcome]}" for outcome, count in results[name]["counts"].items())
        print(f"{name}, seed {seed}: {counts}", file=sys.stderr, flush=True)
        if given.json is not None:
            kept = json.loads(given.json.read_text()) if given.json.exists() else {}
            given.json.write_text(json.dumps({**kept, name: results[name]}, indent=2, sort_keys=True) + "\n")
    print(table(results))
    if given.page is not None:
        page = given.page.read_text()
        before, _, rest = page.partition(BEGIN)
        _, _, after = rest.partition(END)
        kept = json.loads(given.json.read_text()) if given.json is not None else results
        given.page.write_text(f"{before}{BEGIN}\n\n{summary(kept)}\n\n{END}{after}")
        write_csv(kept, given.page.with_suffix(".csv"))
    return int(any(row["counts"].get(bad) for row in results.values() for bad in ("wrong", "crashed", "over")))


if __name__ == "__main__":
    with ExitStack() as held:
        sys.exit(main(held))
