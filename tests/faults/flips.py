"""Damage to every kind of file that lbhash writes, read back by every command: refused, or nothing has changed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.faults.attack import Run, attack
from tests.faults.material import BITS, IDS, MONITORED, TRAINING, Material, look_at_codes, look_at_index, look_at_model
from tests.faults.program import Done, Program, warm_more

PAGE = 512
KINDS = ("flat", "mih", "ivf", "hnsw")


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


@dataclass(frozen=True)
class Reader:
    """Commands that read files, one after the other.

    Attributes:
        program: what runs them.
        whole: the folder, undamaged.
        files: those to damage, as patterns within the folder.
        commands: the arguments of each command, given the folder; or a function, to be called with it in a child.
        look: what is to be compared besides what the commands print.
        printed: whether that is to be compared; it is not where it has times in it.
    """

    program: Program
    whole: Path
    files: Sequence[str]
    commands: Sequence[Callable[[Path], tuple] | Callable[[str], Any]]
    look: Callable[[Path], Any] | None = None
    printed: bool = True

    def read(self, folder: Path) -> tuple[Done, Any]:
        """Run the commands until one does not succeed; return how that one ended, and what there is to compare."""
        said, done = [], Done(0, "", "", 0)
        for command in self.commands:
            if isinstance(command, InChild):
                done = self.program.call(command.function, str(folder))
            else:
                done = self.program(*command(folder))
            if done.status != 0:
                return done, None
            said += [done.out] if self.printed else []
        return done, (said, None if self.look is None else self.look(folder))


@dataclass(frozen=True)
class InChild:
    """A function of the library in the place of a command."""

    function: Callable[[str], Any]


def flip_all(run: Run, readers: Sequence[Reader]) -> None:
    """Damage one file at a time, read it, and compare with what it was."""
    work = run.folder / "work"
    expected = []
    for reader in readers:
        shutil.copytree(reader.whole, work)
        done, found = reader.read(work)
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
        done, found = reader.read(work)
        what = f"{reader.whole.name}/{file}: {how}"
        if done.crash:
            run.count("crashed", f"{what}: {done.crash}")
        elif done.refused:
            run.count("refused")
        else:
            run.count("survived" if found == expected[number] else "wrong", what)
        shutil.rmtree(work)


def export_to(folder: Path) -> tuple:
    """Return the arguments of the export of an index, which looks at all that it holds."""
    return ("index", "export", "--index", folder, "--out", folder / "out.parquet", "--overwrite", "--json")


def exported(folder: Path) -> bytes:
    """Return what was exported."""
    return (folder / "out.parquet").read_bytes()


def flip_index(run: Run, *commands: Callable[[Path], tuple] | InChild, look: Callable | None = None) -> None:
    """Damage the files of an index of each kind."""
    material = Material(run)
    files = ("index.json", "0*")
    flip_all(run, [Reader(material.program, material.index(kind), files, commands, look) for kind in KINDS])


def search_all(folder: Path) -> tuple:
    """Return the arguments of a search that names every code, and of another with a filter."""
    return ("search", "--index", folder, "--code", "0f3a", "--code", "ff00", "-k", len(IDS) - 3, "--json")


def search_filtered(folder: Path) -> tuple:
    """Return the arguments of a search with a filter."""
    return ("search", "--index", folder, "--code", "0f3a", "--where", "label=1", "-k", 400, "--json")


@attack("flip-index-search", "damaged index files, read by `search` with and without a filter", 1400)
def flip_index_search(run: Run) -> None:
    flip_index(run, search_all, search_filtered)


def answers(client: Any) -> list:
    """Return what a service answers from an index: every code, and those of a label, with their attributes."""
    asked = [
        {"code": "0f3a", "k": 1000},
        {"code": "ff00", "k": 1000},
        {"code": "0f3a", "where": {"label": 1}, "k": 900},
    ]
    found = []
    for request in asked:
        answer = client.post("/search", json=request)
        if answer.status_code in (400, 503) and "damaged" in answer.json()["detail"]:
            raise ValueError(answer.json()["detail"])
        assert answer.status_code == 200, answer.text
        found.append([(one["id"], one["distance"], one["attributes"]) for one in answer.json()["neighbors"]])
    return found


@contextmanager
def serving(model: Path, index: Path | str) -> Iterator[Any]:
    """Run a service within this process, and give a client of it."""
    from starlette.testclient import TestClient

    from lbhash.service import Settings, create_app

    service = create_app(Settings(model=model, index=index, reload_seconds=3600))
    with TestClient(service, raise_server_exceptions=False) as client:
        yield client


@attack("flip-index-serve", "damaged index files, at the start of the service, read by its `/search`", 400)
def flip_index_serve(run: Run) -> None:
    warm_more("lbhash.service.app", "starlette.testclient")
    model = Material(run).model

    def start(there: str) -> Any:
        with serving(model, there) as client:
            return answers(client)

    flip_index(run, InChild(start))


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
        material.program.must("index", "remove", "--index", new, "--ids", int(IDS[50]))
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

    files = ("index.json", "0*")
    flip_all(run, [Reader(material.program, run.folder / kind, files, (InChild(reload),)) for kind in KINDS])


@attack("flip-index-verify", "damaged index files, read by `index verify`, then `search`", 200)
def flip_index_verify(run: Run) -> None:
    flip_index(run, lambda folder: ("index", "verify", "--index", folder, "--json"), search_all)


@attack("flip-index-python", "damaged index files, read by `verify` and every method of `Index`", 200)
def flip_index_python(run: Run) -> None:
    flip_index(run, InChild(look_at_index))


@attack("flip-index-export", "damaged index files, read by `index export`", 200)
def flip_index_export(run: Run) -> None:
    flip_index(run, export_to, look=exported)


@attack("flip-index-compact", "damaged index files, rewritten by `index compact`; nothing is laundered", 200)
def flip_index_compact(run: Run) -> None:
    flip_index(run, lambda folder: ("index", "compact", "--index", folder, "--json"), export_to, look=exported)


@attack("flip-index-remove", "damaged index files, rewritten by a large `index remove`; nothing is laundered", 200)
def flip_index_remove(run: Run) -> None:
    removed = ("--ids", ",".join(map(str, IDS[10:700])))
    flip_index(run, lambda folder: ("index", "remove", "--index", folder, "--json", *removed), export_to, look=exported)


@attack("flip-index-add", "damaged index files, merged by the eighth `index add`; nothing is laundered", 200)
def flip_index_add(run: Run) -> None:
    material = Material(run)
    whole, codes = run.folder / "segments", run.folder / "more.npz"
    done = material.program.call(_segments, str(whole))
    assert done.status == 0, done.err
    np.savez(codes, codes=np.arange(60, dtype=np.uint8).reshape(30, 2), bits=BITS, rows=np.arange(30))
    add = ("index", "add", "--codes", codes, "--ids", "next", "--json", "--index")
    commands = (lambda folder: (*add, folder), export_to)
    flip_all(run, [Reader(material.program, whole, ("index.json", "0*"), commands, exported)])


def _segments(folder: str) -> None:
    """Build an index of seven small segments; the next one merges them."""
    from lbhash.codes.io import CodeTable
    from lbhash.index import build_index

    rng = np.random.default_rng(3)
    codes = rng.integers(0, 256, (210, BITS // 8), dtype=np.uint8)
    index = build_index(CodeTable(codes[:30], BITS, np.arange(30)), folder)
    for start in range(30, 210, 30):
        index.add(codes[start : start + 30], attributes={"row": np.arange(start, start + 30)})


@attack("flip-model", "damaged model files, read by `encode` and `search`", 200)
def flip_model(run: Run) -> None:
    material = Material(run)
    data, index = material.data, run.folder / "of-model"
    material.program.must("index", "build", "--model", material.model, "--data", data, "--out", index)
    commands = (
        lambda folder: (
            *("encode", "--model", folder, "--data", data, "--split", "base"),
            *("--out", folder / "out.parquet", "--overwrite", "--json"),
        ),
        lambda folder: (
            *("search", "--index", index, "--model", folder, "--data", data / "query.npz"),
            *("--row", 3, "--rerank", "asymmetric", "--json"),
        ),
    )
    files = ("config.json", "model.safetensors")
    flip_all(run, [Reader(material.program, material.model, files, commands, exported)])


@attack("flip-checkpoint", "damaged checkpoints, read by `train --resume`, bit for bit", 200)
def flip_checkpoint(run: Run) -> None:
    material = Material(run)
    assert material.model  # fills the cache of centers
    readers = []
    for name, settings in (("last", TRAINING), ("best", (*TRAINING, *MONITORED))):
        folder = run.folder / name
        training = ("train", "--data", material.data, *settings, "--json", "--out")
        material.program.before = partial(_die_at, "last.ckpt", 3)
        assert material.program(*training, folder).status == -9
        material.program.before = None
        commands = (lambda there, training=training: (*training, there, "--resume"),)
        files = (f"checkpoints/{name}.ckpt",)
        readers.append(Reader(material.program, folder, files, commands, look_at_model, printed=False))
    flip_all(run, readers)


def _die_at(name: str, times: int) -> None:
    """Let this process kill itself when a file is renamed to this name for this time."""
    left = [times]

    def watch(event: str, arguments: tuple) -> None:
        if event == "os.rename" and str(arguments[1]).endswith(name):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def read_codes_by(material: Material, codes: Callable[[Path], Path]) -> tuple:
    """Return the commands that read codes: as base, as what is searched, and as what an index is made of."""
    other = material.codes("query")
    return (
        lambda folder: ("evaluate", "--queries", other, "--base", codes(folder), "--json"),
        lambda folder: ("search", "--index", codes(folder), "--code", "0f3a", "-k", 300, "--json"),
        lambda folder: ("index", "build", "--codes", codes(folder), "--out", folder / "built", "--json"),
        lambda folder: export_to(folder / "built"),
    )


@attack("flip-codes", "damaged files of codes, read by `evaluate`, `search` and `index build`", 200)
def flip_codes(run: Run) -> None:
    material = Material(run)
    readers = []
    for suffix in (".parquet", ".npz"):
        whole = run.folder / f"codes{suffix[1:]}"
        whole.mkdir()
        shutil.copy(material.codes(suffix=suffix), whole)
        commands = read_codes_by(material, lambda folder, suffix=suffix: folder / f"base{suffix}")
        readers += readers_of(material, whole, ("base*",), commands)
    flip_all(run, readers)


@attack("flip-shards", "damaged shards of codes, read by `evaluate`, `search`, `index build` and `encode`", 200)
def flip_shards(run: Run) -> None:
    material = Material(run)
    again = ("--model", material.model, "--data", material.data, "--split", "base", "--shard-rows", 80, "--out")
    files = ("*.parquet", "_codes.json")
    readers = readers_of(material, material.shards, files, read_codes_by(material, lambda folder: folder))
    encode = (lambda folder: ("encode", *again, f"{folder}/"),)
    flip_all(run, [*readers, Reader(material.program, material.shards, files, encode, look_at_codes, printed=False)])


def readers_of(material: Material, whole: Path, files: Sequence[str], commands: tuple) -> list[Reader]:
    """Return a reader for each command; the last two belong together, and what they export is compared."""
    *single, build, export = commands
    readers = [Reader(material.program, whole, files, (command,)) for command in single]
    built = Reader(material.program, whole, files, (build, export), lambda there: exported(there / "built"), False)
    return [*readers, built]


@attack("flip-embeddings", "damaged cached embeddings of images, read by `encode`", 200)
def flip_embeddings(run: Run) -> None:
    from tests.image_tools import write_backbone, write_stripes

    warm_more("transformers", "lbhash.models.backbone")
    material = Material(run)
    program, images = material.program, write_stripes(run.folder / "images", 96)
    done = program.call(lambda: str(write_backbone(run.folder / "backbone")))
    assert done.status == 0, done.err
    source = ("--data", images, "--backbone", run.folder / "backbone")
    training = ("--bits", BITS, "--hidden", 8, "--epochs", 1, "--out", run.folder / "model")
    program.must("train", *source, "--freeze", "--protocol", "holdout", *training)

    def encode(there: Path) -> tuple:
        return (
            "encode",
            "--model",
            run.folder / "model",
            *source,
            "--out",
            there / "out.parquet",
            "--overwrite",
            "--json",
        )

    _of_cache(run, program, ("embeddings/*/*.npy", "embeddings/*/*.json"), encode, exported)


@attack("flip-centers", "damaged cached class centers and bounds, read by `centers`", 200)
def flip_centers(run: Run) -> None:
    program = Program(run.folder / "cache")
    _of_cache(run, program, ("centers/*",), lambda _: ("centers", "--classes", 20, "--bits", 24, "--json"), None)


def _of_cache(run: Run, program: Program, files: Sequence[str], command: Callable, look: Callable | None) -> None:
    """Damage files of the cache, which lies where the commands of this program look."""
    whole = run.folder / "whole-cache"
    (run.folder / "first").mkdir()
    program.must(*command(run.folder / "first"))
    shutil.copytree(program.cache, whole)
    program.cache = run.folder / "work"
    flip_all(run, [Reader(program, whole, files, (command,), look)])


@attack("flip-study", "a damaged study, read by `tune --resume`", 200)
def flip_study(run: Run) -> None:
    warm_more("optuna", "sqlalchemy", "sqlalchemy.dialects.sqlite", "lbhash.tuning")
    material = Material(run)
    tuning = ("tune", "--data", material.data, "--bits", BITS, "--epochs", 1, "--trials", 2, "--json", "--out")
    material.program.must(*tuning, run.folder / "study")
    commands = (lambda there: (*tuning, there, "--resume"),)

    def look(there: Path) -> Any:
        lines = (there / "best.json").read_text().splitlines()
        same = [line for line in lines if "seconds" not in line]  # a trial that was lost is tried again
        return same, (there / "model" / "model.safetensors").read_bytes()

    flip_all(run, [Reader(material.program, run.folder / "study", ("study.db",), commands, look, printed=False)])


@attack("flip-runs", "damaged finished runs of `reproduce`, read again", 200)
def flip_runs(run: Run) -> None:
    from lbhash.reproduce.runs import Source
    from lbhash.reproduce.runs.runner import CODES, TRAJECTORY, RunConfig, execute
    from lbhash.utils.parallel import read_run

    material = Material(run)
    wanted = frozenset((CODES, TRAJECTORY))
    config = RunConfig(Source("blobs", str(material.data)), "csq", "plain", BITS, epochs=1, hidden=4, wanted=wanted)
    done = material.program.call(execute, config, [0], run.folder / "runs")
    assert done.status == 0, done.err

    def read(there: str) -> Any:
        return read_run(config.file(0, Path(there)))

    flip_all(run, [Reader(material.program, run.folder / "runs", ("*",), (InChild(read),))])
