"""Searches of every kind while the index changes and others abuse the service; every answer is computed again."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import queue
import random
import shutil
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.app_answers import png
from tests.faults.attack import Run, attack
from tests.faults.http_inputs import post_image
from tests.faults.http_requests import babble, leave, mislead, nest, to_leave
from tests.faults.http_service import GOOD, Answer, Client, Ending, form, judge, lbhash, material, request, served

CLIENTS, MAX_K, KEPT = 4, 1000, 10
"""Clients at once, the most neighbors of an answer, and how many of the first codes are never removed."""


@dataclass
class State:
    """What an index holds in one generation: ids that increase, and for each its code, row and label.

    The row is -1 where the index knows none: codes that come later may be of other data.
    """

    ids: np.ndarray
    codes: np.ndarray
    rows: np.ndarray
    labels: np.ndarray

    def only(self, kept: np.ndarray) -> State:
        """Return the codes where ``kept`` is true."""
        return State(self.ids[kept], self.codes[kept], self.rows[kept], self.labels[kept])

    def neighbors(self, code: np.ndarray, given: dict[str, Any]) -> tuple[list[dict[str, Any]], int | None]:
        """Return what a search for this code finds, and how many are within the radius where no k is given."""
        radius, k = given.get("radius"), given.get("k")
        distances = np.unpackbits(self.codes ^ code, axis=1).sum(axis=1, dtype=np.int64)
        passed = distances <= (distances.max(initial=0) if radius is None else radius)
        if "where" in given:
            passed &= np.isin(self.labels, given["where"]["label"])
        all_within = radius is not None and k is None
        order = np.flatnonzero(passed)
        order = order[np.lexsort((self.ids[order], distances[order]))]
        found = order[: MAX_K if all_within else k or 10]
        neighbors = [
            {
                "rank": rank,
                "id": int(self.ids[place]),
                "distance": float(distances[place]),
                "hamming": int(distances[place]),
                "label": int(self.labels[place]),
                "metadata": {
                    "row": int(self.rows[place]) if self.rows[place] >= 0 else None,
                    "label": int(self.labels[place]),
                },
                "image": bool(self.rows[place] >= 0),
                "code": self.codes[place].tobytes().hex(),
            }
            for rank, place in enumerate(found, 1)
        ]
        return neighbors, len(order) if all_within else None


@dataclass
class Asked:
    """A query and its answer: ``kind`` and ``value`` of the query, and which generation the client had seen before."""

    kind: str
    value: Any
    given: dict[str, Any]
    answer: Answer
    seen: int


@dataclass
class Index:
    """The index that changes, a file of codes of its model, and all states that it was in, by generation."""

    path: Path
    like: Path
    states: dict[int, State]
    rows: State
    changes: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def newest(self) -> int:
        """The last generation."""
        return max(self.states)

    def change(self, rng: random.Random) -> None:
        """Add, remove or compact by the command line, and keep what the index must hold then."""
        last = self.states[self.newest]
        how = rng.choice(["add", "add", "remove", "remove", "compact"])
        if len(last.ids) > 4000:
            how = "remove"
        elif len(last.ids) < 500:
            how = "add"
        if how == "add":
            rows = np.array(sorted(rng.sample(range(len(self.rows.ids)), rng.choice([1, 30, 300]))))
            ids = np.arange(len(rows)) + max(int(state.ids.max()) for state in self.states.values()) + 1
            new = State(ids, self.rows.codes[rows], rows, self.rows.labels[rows])
            write(self.path.with_name("add.parquet"), new, self.like)
            new = replace(new, rows=np.full(len(rows), -1))
            said = lbhash("index", "add", self.path, "--codes", self.path.with_name("add.parquet"), "--json")
            parts = (last.ids, new.ids), (last.codes, new.codes), (last.rows, new.rows), (last.labels, new.labels)
            after = State(*(np.concatenate(part) for part in parts))
        elif how == "remove":
            several = min(rng.choice([1, 30, 300]), len(last.ids) - KEPT - 1)
            gone = rng.sample(last.ids[KEPT:].tolist(), several)
            said = lbhash("index", "remove", self.path, "--ids", ",".join(map(str, gone)), "--json")
            after = last.only(~np.isin(last.ids, gone))
        else:
            said = lbhash("index", "compact", self.path, "--json")
            after = last
        about = json.loads(said)
        if about["codes"] != len(after.ids):
            self.problems.append(f"{how} left {about['codes']} codes in place of {len(after.ids)}")
        self.states[about["generation"]] = after
        self.changes += 1


def write(path: Path, state: State, like: Path) -> None:
    """Write a file of codes with ids, whose metadata are those of another."""
    metadata = pq.read_schema(like).metadata
    codes = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(state.codes.shape[1]), len(state.codes), [None, pa.py_buffer(np.ascontiguousarray(state.codes))]
    )
    table = pa.table({"id": state.ids, "row": state.rows, "code": codes, "label": state.labels})
    pq.write_table(table.replace_schema_metadata(metadata), path)


def all_rows(codes_file: Path) -> tuple[State, np.ndarray]:
    """Return codes and labels of all rows of the digits, as the command line encoded them, and the embeddings."""
    from sklearn.datasets import load_digits

    table = pq.read_table(codes_file)
    codes = np.array([np.frombuffer(code, np.uint8) for code in table["code"].to_pylist()])
    rows = np.arange(len(codes))
    assert table["row"].to_numpy().tolist() == rows.tolist()
    return State(rows, codes, rows, table["label"].to_numpy()), load_digits().data


def ask(service: Client, rng: random.Random, index: Index, embeddings: np.ndarray, seen: int) -> Asked:
    """Ask for the neighbors of a code, id, embedding or image."""
    given: dict[str, Any] = {"ranking": "hamming"}
    if rng.random() < 0.7:
        given["k"] = rng.choice([1, 3, 10, 100, 1000])
    if rng.random() < 0.4:
        given["radius"] = rng.randint(0, 8)
    if rng.random() < 0.4:
        given["where"] = {"label": rng.choice([[rng.randrange(10)], [rng.randrange(10), 99], [99]])}
    row, kind = rng.randrange(len(embeddings)), rng.choice(["code", "id", "embedding", "image"])
    picture = embeddings[row].reshape(8, 8)
    if kind == "image" and np.concatenate([picture[0], picture[-1], picture[1:-1, 0], picture[1:-1, -1]]).mean() > 7.5:
        kind = "embedding"  # an image with a bright border is inverted
    value: Any = row
    if kind == "image":
        image = png(np.rint(picture * (255 / 16)))
        content, media = form(
            image, [(name, option if name == "ranking" else json.dumps(option)) for name, option in given.items()]
        )
        sent = request("POST", "/v1/search", content, [("Content-Type", media)])
    else:
        if kind == "code":
            value = rng.randbytes(index.rows.codes.shape[1]).hex()
        elif kind == "id":
            value = int(rng.choice(index.states[index.newest].ids.tolist()))
        query = embeddings[row].tolist() if kind == "embedding" else value
        sent = request("POST", "/v1/search", json.dumps({"queries": [{kind: query}], **given}).encode())
    return Asked(kind, value, given, service.ask(sent, source=GOOD, seconds=120), seen)


def check(asked: Asked, index: Index) -> Ending | None:
    """Compare an answer with what NumPy finds in the generation that it names; None if that is not known yet."""
    answer, query = asked.answer, f"{asked.kind} {asked.value} {asked.given}"
    if answer.status == 404 and asked.kind == "id":
        if any(asked.value not in state.ids for generation, state in index.states.items() if generation >= asked.seen):
            return "survived", ""
        return None
    outcome, what = judge(answer)
    if answer.status != 200:
        if answer.status == 503 and outcome == "refused":
            return outcome, what
        return ("wrong" if outcome == "refused" else outcome), f"status {answer.status}, {what}, for {query}"
    content = json.loads(answer.body)
    (found,), generation = content["answers"], content["generation"]
    if generation not in index.states:
        return None
    state = index.states[generation]
    if asked.kind == "code":
        code = np.frombuffer(bytes.fromhex(asked.value), np.uint8)
    elif asked.kind == "id":
        if asked.value not in state.ids:
            return "wrong", f"found id {asked.value}, which generation {generation} does not have"
        code = state.codes[state.ids == asked.value][0]
    else:
        code = index.rows.codes[asked.value]
    neighbors, within = state.neighbors(code, asked.given)
    if generation < asked.seen:
        return "wrong", f"generation {generation} after {asked.seen}, for {query}"
    if found["query"]["code"] != code.tobytes().hex():
        return "wrong", f"code {found['query']['code']} in place of {code.tobytes().hex()}, for {query}"
    if found["neighbors"] != neighbors or found["within"] != within:
        return "wrong", f"other neighbors than those of generation {generation}, for {query}"
    return "survived", ""


def abuse(port: int, seed: int) -> None:
    """Abuse the service in every way, until the process is ended."""
    from tests.faults.http_inputs import pictures

    service, rng, whole = Client(port), random.Random(seed), pictures()
    name = service.get("/page/map")["ids"][0]
    sent = to_leave(service, name)
    ways = [
        lambda: nest(service, rng),
        lambda: babble(service, rng),
        lambda: leave(service, rng, sent),
        lambda: mislead(service, rng, name),
        lambda: post_image(service, rng, whole),
    ]
    while True:
        rng.choice(ways)()
        time.sleep(0.02)


@attack("http-load", "searches while the index is changed by commands and others abuse the service; all recomputed")
def load(run: Run) -> None:
    """Every answer is that of NumPy for the generation that it names, or a refusal because the service is busy."""
    codes_file = material(run) / "codes.parquet"
    rows, embeddings = all_rows(codes_file)
    path = run.folder / "index"
    first = rows.only(rows.ids < 1500)
    write(run.folder / "first.parquet", first, codes_file)
    about = json.loads(lbhash("index", "build", "--codes", run.folder / "first.parquet", "--out", path, "--json"))
    index = Index(path, codes_file, {about["generation"]: first}, rows)
    answers: queue.Queue[Asked] = queue.Queue(1000)
    stopped = threading.Event()

    def search(number: int) -> None:
        rng, seen = random.Random(f"{run.seed} client {number}"), 0
        while not stopped.is_set():
            asked = ask(service, rng, index, embeddings, seen)
            if asked.answer.status == 200:
                seen = json.loads(asked.answer.body)["generation"]
            answers.put(asked)

    def write_changes() -> None:
        rng = random.Random(f"{run.seed} changes")
        while not stopped.is_set():
            index.change(rng)
            stopped.wait(rng.uniform(0, 2))

    unknown: list[Asked] = []
    with served(run, index=path, steady=False) as service:
        process = multiprocessing.get_context("spawn").Process(target=abuse, args=(service.port, run.seed), daemon=True)
        process.start()
        threads = [threading.Thread(target=search, args=(number,)) for number in range(CLIENTS)]
        threads.append(threading.Thread(target=write_changes))
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) or not answers.empty():
            if run.over:
                stopped.set()
            with contextlib.suppress(queue.Empty):
                asked = answers.get(timeout=0.2)
                if (ending := check(asked, index)) is None:
                    unknown.append(asked)
                else:
                    run.count(*ending)
        if process.exitcode is not None:
            raise RuntimeError(f"the abuse beside the load ended by itself, with {process.exitcode}")
        process.kill()
        process.join()
    for asked in unknown:
        ending = check(asked, index) or ("wrong", f"{asked.kind} {asked.value}: an answer of a state that never was")
        run.count(*ending)
    for problem in index.problems:
        run.count("wrong", problem)
    run.note("changes of the index", index.changes)
    shutil.rmtree(path)
