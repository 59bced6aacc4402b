"""Damage to every kind of file that lbhash writes, read back by every command: refused, or nothing has changed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tests.faults.attack import Run, attack
from tests.faults.material import BITS, IDS, MONITORED, TRAINING, Material, look_at_codes, look_at_index, look_at_model
from tests.faults.program import HERE, Program, warm_more

PAGE = 512
KINDS = ("flat", "ivf")
OF_INDEX = ("index.json", "0*")
"""The files of an index."""
SEARCH = ("search", HERE, "--code", "0f3a", "--code", "ff00", "-k", len(IDS) - 3, "--json")
"""A search that names every code."""
NEAR = ("search", HERE, "--code", "0f3a", "--code", "ff00", "-k", 5, "--json")
"""A search in which the lists of ``ivf`` are probed."""
FILTERED = ("search", HERE, "--code", "0f3a", "--where", "label=1", "-k", 400, "--json")
EXPORT = ("index", "export", HERE, "--out", f"{HERE}/out.parquet", "--overwrite", "--json")
"""The export of an index, which looks at all that it holds."""


def damage(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return a file's content, which is not empty, with damage, and what the damage is."""
    changed = bytearray(content)
    at = rng.randrange(len(content))
    how = rng.choice(["flip", "flip", "flip", "bytes", "zero", "move", "cut", "grow"])
    if how == "flip":
        bit = rng.randrange(8)
        changed[at] ^= 1 << bit
        how = f"bit {bit} of byte {at} flipped"
    elif how == "bytes":
        count = rng.randint(2, 16)
        changed[at : at + count] = rng.randbytes(len(changed[at : at + count]))
        how = f"{count} bytes at {at} random"
    elif how == "zero":
        at -= at % PAGE
        changed[at : at + PAGE] = bytes(len(changed[at : at + PAGE]))
        how = f"zeros from {at} to {at + PAGE}"
    elif how == "move":
        count, other = rng.randint(8, 256), rng.randrange(len(content))
        piece = content[other : other + count][: len(content) - at]
        changed[at : at + len(piece)] = piece
        how = f"{len(piece)} bytes from {other} written to {at}"
    elif how == "cut":
        del changed[at:]
        how = f"cut off at {at}"
    else:
        count = rng.randint(1, 600)
        changed += rng.choice([bytes(count), rng.randbytes(count)])
        how = f"{count} bytes longer"
    return bytes(changed), f"{how} of {len(content)}"


class Reader(NamedTuple):
    """Commands that read files, one after the other.

    Attributes:
        whole: the folder, undamaged.
        files: those to damage, as patterns within the folder.
        steps: the arguments of each command; or a function, which is called with the folder in a child.
        look: what is to be compared besides what the commands print.
        printed: whether that is to be compared; it is not where it has times in it.
    """

    whole: Path
    files: Sequence[str]
    steps: Sequence[tuple | Callable[[str], Any]]
    look: Callable[[Path], Any] | None = None
    printed: bool = True


def flip_all(run: Run, program: Program, readers: Sequence[Reader]) -> None:
    """Damage one file at a time, read it, and compare with what it was."""
    work = run.folder / "work"

    def read(reader: Reader) -> Any:
        """Run the commands until one does not succeed; return how the last one ended, and what there is to compare."""
        said = []
        for step in reader.steps:
            done = program.call(step, str(work)) if callable(step) else program(*step, here=work)
            if done.status != 0:
                return done, None
            said += [done.out] if reader.printed else []
        return done, (said, None if reader.look is None else reader.look(work))

    expected = []
    for reader in readers:
        shutil.copytree(reader.whole, work)
        done, found = read(reader)
        assert done.status == 0, done.err
        expected.append(found)
        shutil.rmtree(work)
    for rng in run.faults():
        number = rng.randrange(len(readers))
        reader = readers[number]
        files = sorted(file for pattern in reader.files for file in reader.whole.glob(pattern) if file.stat().st_size)
        file = rng.choice(files).relative_to(reader.whole)
        content = (reader.whole / file).read_bytes()
        changed, how = damage(content, rng)
        if changed == content:
            continue
        shutil.copytree(reader.whole, work)
        (work / file).write_bytes(changed)
        done, found = read(reader)
        what = f"{reader.whole.name}/{file}: {how}"
        if done.crash:
            run.count("crashed", f"{what}: {done.crash}")
        elif done.refused:
            run.count("refused")
        else:
            run.count("survived" if found == expected[number] else "wrong", what)
        shutil.rmtree(work)


def exported(folder: Path) -> bytes:
    """Return what was exported."""
    return (folder / "out.parquet").read_bytes()


def flip_index(steps: Sequence[tuple | Callable[[str], Any]], run: Run) -> None:
    """Damage the files of an index of each kind; if it is exported, that is compared, too."""
    material, look = Material(run), exported if EXPORT in steps else None
    flip_all(run, material.program, [Reader(material.index(kind), OF_INDEX, steps, look) for kind in KINDS])


VERIFY = ("index", "verify", HERE, "--json")
COMPACT = ("index", "compact", HERE, "--json")
REMOVE = ("index", "remove", HERE, "--json", "--ids", ",".join(map(str, IDS[10:700])))
for _name, _what, _enough, _steps in (
    ("search", "read by `search` with and without a filter", 1400, (SEARCH, NEAR, FILTERED)),
    ("verify", "read by `index verify`, then `search`", 200, (VERIFY, SEARCH)),
    ("python", "read by `verify` and every method of `Index`", 200, (look_at_index,)),
    ("export", "read by `index export`", 200, (EXPORT,)),
    ("compact", "rewritten by `index compact`; nothing is laundered", 200, (COMPACT, EXPORT)),
    ("remove", "rewritten by a large `index remove`; nothing is laundered", 200, (REMOVE, EXPORT)),
):
    attack(f"flip-index-{_name}", f"damaged index files, {_what}", _enough)(partial(flip_index, _steps))


def answers(client: Any) -> list:
    """Return what a service answers from an index: every code, and those of a label, with their metadata."""
    found = []
    for code, options in (("0f3a", {"k": 1000}), ("ff00", {"k": 1000}), ("0f3a", {"where": {"label": 1}})):
        answer = client.post("/v1/search", json={"queries": [{"code": code}], **options})
        if answer.status_code in (400, 503) and "damaged" in answer.json()["detail"]:
            raise ValueError(answer.json()["detail"])
        assert answer.status_code == 200, answer.text
        neighbors = answer.json()["answers"][0]["neighbors"]
        found.append([(one["id"], one["hamming"], one["metadata"]) for one in neighbors])
    return found


@contextmanager
def serving(model: Path, index: Path | str) -> Iterator[Any]:
    """Run a service within this process, and give a client of it."""
    from starlette.testclient import TestClient

    from lbhash.service import Settings, create_app, state

    state.RELOAD_SECONDS = 3600
    service = create_app(Settings(model=model, index=index))
    with TestClient(service, raise_server_exceptions=False) as client:
        yield client


@attack("flip-index-serve", "damaged index files, at the start of the service, read by its `/search`", 400)
def flip_index_serve(run: Run) -> None:
    warm_more("lbhash.service.app", "starlette.testclient")
    model = Material(run).model

    def start(there: str) -> Any:
        with serving(model, there) as client:
            return answers(client)

    flip_index((start,), run)


@attack(
    "flip-index-reload", "damaged files of a newer index, loaded by a running service, whose old index goes on", 400
)
def flip_index_reload(run: Run) -> None:
    warm_more("lbhash.service.app", "starlette.testclient")
    material = Material(run)
    model = material.model
    for kind in KINDS:
        old, new = run.folder / "olds" / kind, run.folder / kind
        shutil.copytree(material.index(kind), old)
        shutil.copytree(old, new)
        material.program.must("index", "remove", new, "--ids", int(IDS[50]))
        (new / "kind").write_text(kind)

    def reload(there: str) -> Any:
        folder, newer = Path(there), Path(f"{there}-newer")
        folder.rename(newer)
        shutil.copytree(run.folder / "olds" / (newer / "kind").read_text(), folder)
        with serving(model, folder) as client:
            old = answers(client)
            for file in (*folder.glob("0*"), folder / "index.json"):
                file.unlink()
            for file in newer.iterdir():
                file.rename(folder / file.name)
            newer.rmdir()
            try:
                client.app.state.service.engine.refresh()
            except ValueError:
                assert answers(client) == old, "the old index does not go on"
                raise
            return answers(client)

    flip_all(run, material.program, [Reader(run.folder / kind, OF_INDEX, (reload,)) for kind in KINDS])


@attack("flip-index-add", "damaged index files, merged by the eighth `index add`; nothing is laundered", 200)
def flip_index_add(run: Run) -> None:
    material = Material(run)
    whole, codes = run.folder / "segments", run.folder / "more.npz"
    done = material.program.call(_segments, str(whole))
    assert done.status == 0, done.err
    np.savez(codes, codes=np.arange(60, dtype=np.uint8).reshape(30, 2), bits=BITS, rows=np.arange(30))
    add = ("index", "add", HERE, "--codes", codes, "--id-column", "next", "--json")
    flip_all(run, material.program, [Reader(whole, OF_INDEX, (add, EXPORT), exported)])


def _segments(folder: str) -> None:
    """Build an index of seven small segments; the next one merges them."""
    from lbhash.codes.io import CodeTable
    from lbhash.index.factory import build_index

    rng = np.random.default_rng(3)
    codes = rng.integers(0, 256, (210, BITS // 8), dtype=np.uint8)
    index = build_index(CodeTable(codes[:30], BITS, np.arange(30)), folder)
    for start in range(30, 210, 30):
        index.add(codes[start : start + 30], metadata={"row": np.arange(start, start + 30)})


@attack("flip-model", "damaged model files, read by `encode` and `search`", 200)
def flip_model(run: Run) -> None:
    material = Material(run)
    data, index = material.data, run.folder / "of-model"
    material.program.must("index", "build", "--model", material.model, data, "--out", index)
    encode = ("encode", "--model", HERE, data, "--split", "base", "--overwrite", "--json")
    search = ("search", index, "--model", HERE, "--data", data / "query.npz", "--row", 3, "--json")
    steps = ((*encode, "--out", f"{HERE}/out.parquet"), search)
    files = ("config.json", "model.safetensors")
    flip_all(run, material.program, [Reader(material.model, files, steps, exported)])


@attack("flip-checkpoint", "damaged checkpoints, read by `train --resume`, bit for bit", 200)
def flip_checkpoint(run: Run) -> None:
    material = Material(run)
    assert material.model  # fills the cache of centers
    readers = []
    for name, settings in (("last", TRAINING), ("best", (*TRAINING, *MONITORED))):
        folder = run.folder / name
        training = ("train", material.data, *settings, "--json", "--out", HERE)
        material.program.before = partial(_die_at, "last.ckpt", 3)
        assert material.program(*training, here=folder).status == -9
        material.program.before = None
        files = (f"checkpoints/{name}.ckpt",)
        readers.append(Reader(folder, files, ((*training, "--resume"),), look_at_model, printed=False))
    flip_all(run, material.program, readers)


def _die_at(name: str, times: int) -> None:
    """Let this process kill itself when a file is renamed to this name for this time."""
    left = [times]

    def watch(event: str, arguments: tuple) -> None:
        if event == "os.rename" and str(arguments[1]).endswith(name):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def readers_of(material: Material, whole: Path, files: Sequence[str], codes: str) -> list[Reader]:
    """Return what reads codes: as base, as what is searched, and as what an index is made of, which is exported."""
    evaluate = ("evaluate", "--queries", material.codes("query"), "--base", codes, "--json")
    search = ("search", codes, "--code", "0f3a", "-k", 300, "--json")
    build = ("index", "build", "--codes", codes, "--out", f"{HERE}/built", "--json")
    export = ("index", "export", f"{HERE}/built", "--out", f"{HERE}/out.parquet", "--json")
    return [
        Reader(whole, files, (evaluate,)),
        Reader(whole, files, (search,)),
        Reader(whole, files, (build, export), exported, printed=False),
    ]


@attack("flip-codes", "damaged files of codes, read by `evaluate`, `search` and `index build`", 200)
def flip_codes(run: Run) -> None:
    material = Material(run)
    readers = []
    for suffix in (".parquet", ".npz"):
        whole = run.folder / f"codes{suffix[1:]}"
        whole.mkdir()
        shutil.copy(material.codes(suffix=suffix), whole)
        readers += readers_of(material, whole, ("base*",), f"{HERE}/base{suffix}")
    flip_all(run, material.program, readers)


@attack("flip-parts", "damaged folders of codes, read by `evaluate`, `search`, `index build` and `encode`", 200)
def flip_parts(run: Run) -> None:
    material, files = Material(run), ("*.parquet", "_manifest.json")
    again = ("encode", "--model", material.model, material.data, "--split", "base")
    encode = Reader(material.parts, files, ((*again, "--out", f"{HERE}/"),), look_at_codes, printed=False)
    flip_all(run, material.program, [*readers_of(material, material.parts, files, HERE), encode])


@attack("flip-embeddings", "damaged cached embeddings of images, read by `encode`", 200)
def flip_embeddings(run: Run) -> None:
    from tests.image_tools import write_backbone, write_stripes

    warm_more("transformers", "lbhash.models.backbone")
    material = Material(run)
    program, images = material.program, write_stripes(run.folder / "images", 96)
    done = program.call(lambda: str(write_backbone(run.folder / "backbone")))
    assert done.status == 0, done.err
    source = (images, "--backbone", run.folder / "backbone")
    training = ("--bits", BITS, "--hidden", 8, "--epochs", 1, "--out", run.folder / "model")
    program.must("train", *source, "--freeze", "--protocol", "holdout", *training)

    encode = ("encode", "--model", run.folder / "model", *source, "--overwrite", "--json")
    files = ("embeddings/*.sqlite",)
    flip_cache(run, program, files, (*encode, "--out", f"{HERE}/out.parquet"), exported)


@attack("flip-centers", "damaged cached class centers and bounds, read by `centers`", 200)
def flip_centers(run: Run) -> None:
    centers = ("centers", "--classes", 20, "--bits", 24, "--json")
    flip_cache(run, Program(run.folder / "cache"), ("centers/*",), centers)


def flip_cache(
    run: Run, program: Program, files: Sequence[str], command: tuple, look: Callable[[Path], Any] | None = None
) -> None:
    """Damage files of the cache, which lies where the commands of this program look."""
    whole = run.folder / "whole-cache"
    (run.folder / "first").mkdir()
    program.must(*command, here=run.folder / "first")
    shutil.copytree(program.cache, whole)
    program.cache = run.folder / "work"
    flip_all(run, program, [Reader(whole, files, (command,), look)])


@attack("flip-search", "damaged trials, read by `tune`", 200)
def flip_search(run: Run) -> None:
    warm_more("optuna", "lbhash.tuning")
    material = Material(run)
    tuning = ("tune", material.data, "--bits", BITS, "--epochs", 1, "--trials", 2, "--json", "--out", HERE)
    material.program.must(*tuning, here=run.folder / "search")

    def look(there: Path) -> Any:
        lines = (there / "best.json").read_text().splitlines()
        same = [line for line in lines if "seconds" not in line]  # a trial that was lost is tried again
        return same, (there / "model" / "model.safetensors").read_bytes()

    flip_all(run, material.program, [Reader(run.folder / "search", ("runs/*",), (tuning,), look, printed=False)])


@attack("flip-runs", "damaged finished runs of `reproduce`, read again", 200)
def flip_runs(run: Run) -> None:
    from lbhash.reproduce.runs import Settings, Source
    from lbhash.reproduce.runs.trained import CODES, TRAJECTORY, RunConfig, completed
    from lbhash.utils.parallel import read_run

    material = Material(run)
    wanted = frozenset((CODES, TRAJECTORY))
    config = RunConfig(Source("blobs", str(material.data)), "csq", "plain", BITS, epochs=1, hidden=4, wanted=wanted)
    settings = Settings(seeds=1, workers=1, runs=run.folder / "runs")
    done = material.program.call(lambda: len(completed(settings, [config])))
    assert done.status == 0, done.err

    def read(there: str) -> Any:
        return read_run(Path(there) / f"{config.name(0)}.json")

    flip_all(run, material.program, [Reader(run.folder / "runs", ("*",), (read,))])
