"""Several writers of one index at once, some of them killed: what was acknowledged is there."""

from __future__ import annotations

import json
import random

import numpy as np
from tests.faults.attack import Run, attack
from tests.faults.material import look_at_index
from tests.faults.program import Program, Started

WRITERS, CHANGES, OWN = 4, 8, 1_000_000


@attack("writers", "4 writers of one index add, remove and compact at once, one of them is killed; commits are counted")
def writers(run: Run) -> None:
    program, folder = Program(run.folder / "cache"), run.folder / "index"
    assert program.call(_begin, str(folder)).status == 0
    kept: set[int] = set(range(100))
    for rng in run.faults():
        base = (run.number + 1) * WRITERS * OWN
        started = [
            program.fork(write, str(folder), base + number * OWN, rng.randrange(2**32)) for number in range(WRITERS)
        ]
        for writer in started:
            writer.go()
        victim = rng.choice(started)
        if not victim.ended(rng.random()):
            victim.kill()
        unsure: set[int] = set()
        for writer in started:
            added, removed, begun = _read(run, writer, writer is victim)
            kept = (kept | added) - removed
            unsure |= begun
        done = program.call(look_at_index, str(folder))
        if done.status:
            run.count("crashed", f"the index after these writers: {done.crash or done.line}")
            return
        found = set(json.loads(done.out)["ids"])
        lost, more = kept - found - unsure, found - kept - unsure
        if lost or more:
            run.count("wrong", f"{len(lost)} acknowledged codes lost, {len(more)} there that were removed")
        kept = found


def _begin(folder: str) -> None:
    from lbhash.codes.io import CodeTable
    from lbhash.index.factory import build_index

    build_index(CodeTable(_codes(np.arange(100)), 32, np.arange(100)), folder)


def _codes(ids: np.ndarray) -> np.ndarray:
    return ids.astype(np.uint32).view(np.uint8).reshape(-1, 4)


def write(folder: str, first: int, seed: int) -> None:
    """Change an index some times, and say before each change what it is, and after it that it is done."""
    from lbhash.index import Index

    rng, index, own, following = random.Random(seed), Index.open(folder, mode="a"), [], first
    for _ in range(CHANGES):
        what = rng.choice(["add", "add", "add", "remove", "compact"])
        if what == "add":
            ids = list(range(following, following + rng.randint(1, 40)))
            following += len(ids)
            print("add", *ids, flush=True)
            index.add(_codes(np.array(ids)), ids, {"row": ids})
            own += ids
        elif what == "remove" and own:
            ids = rng.sample(own, rng.randint(1, len(own)))
            print("remove", *ids, flush=True)
            index.remove(ids)
            own = [number for number in own if number not in set(ids)]
        else:
            print("compact", flush=True)
            index.compact()
        print("done", flush=True)


def _read(run: Run, writer: Started, killed: bool) -> tuple[set[int], set[int], set[int]]:
    """Count what a writer did; return the ids that it added, those that it removed, and those it was killed at."""
    done = writer.wait()
    added: set[int] = set()
    removed: set[int] = set()
    begun: set[int] = set()
    what = ""
    for line in done.out.splitlines():
        word, *numbers = line.split()
        if word == "done":
            run.count("survived")
            if what == "add":
                added |= begun
            elif what == "remove":
                removed |= begun
            begun = set()
        elif word in ("add", "remove", "compact"):
            what, begun = word, set(map(int, numbers))
    if done.crash and not killed:
        run.count("crashed", done.crash)
    elif done.refused:
        run.count("refused")
    return added, removed, begun
