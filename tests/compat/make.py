"""Make the files that ``tests/test_compat.py`` reads, by what an old commit of lbhash writes.

It was run once, with a checkout of that commit; files that today's code makes would prove nothing:

    git worktree add /tmp/old e50cb6d
    OMP_NUM_THREADS=1 PYTHONPATH=/tmp/old/src python tests/compat/make.py tests/compat/e50cb6d

It imports from where that commit has things. All seeds are fixed, so that it makes the same again, but for the random
ids of indexes, times, and what another processor rounds otherwise.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import BytesIO, StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from lightning.pytorch.callbacks import Callback

TIME = 1_700_000_000
"""When the data files were last changed, for what knows them by that."""
FEW_STEPS = {"hidden": 8, "batch_size": 16}
"""Of small trainings: with a high rate their steps are enough for the codes to tell a trained model from a new one."""
MODELS = {
    "csq_d": {"method": "csq", "bits": 16, "epochs": 6, "lr": 0.01, "seed": 5},
    "greedyhash_d": {"method": "greedyhash", "bits": 16, "epochs": 6, "lr": 0.01, "seed": 5},
}
UNFINISHED = {
    "dsdh": {"bits": 16, "guided": False, "epochs": 4, "lr": 0.05, "seed": 12, "monitor": "ratio", "validation": 0.2},
    "csq": {"bits": 2, "epochs": 4, "lr": 0.01, "seed": 5},
}
"""Trainings that are stopped: one whose best epoch is over by then, and a guided one, of few bits for a small file."""
STOP = 2
"""The epoch in which they are stopped."""
IMAGES = ["--bits", "16", "--epochs", "4", "--lr", "0.01", "--hidden", "8", "--batch-size", "16", "--threads", "1"]
TUNED = ["--method", "csq", "--bits", "16", "--epochs", "2", "--seed", "5"]
REPRODUCED = ["--bits", "16", "--methods", "csq", "--epochs", "4", "--lr", "0.01", "--seeds", "1", "--workers", "1"]
INDEXES = {
    "flat": ["--split", "base", "--carry", "name", "--keep", "outputs"],
    "mih": ["--split", "all", "--option", "nflip=0"],
    "ivf": ["--split", "base", "--option", "nprobe=1", "--keep", "embeddings"],
    "hnsw": ["--split", "base", "--option", "m=3", "--option", "ef_construction=16", "--option", "ef_search=4"],
    "milvus": ["--split", "base"],
}
"""Options of the indexes; the approximate ones miss neighbors, so that they cannot be taken for a scan of the codes."""
MIN_ROWS = 40
"""Codes from which a segment gets a structure, so that small indexes have one too."""


def run(*arguments):
    """What a command of lbhash says as JSON."""
    from lbhash.cli import app

    said = StringIO()
    with redirect_stdout(said), redirect_stderr(StringIO()):
        app([*map(str, arguments), "--json"], standalone_mode=False)
    return json.loads(said.getvalue())


def options(settings):
    """Settings of a hasher as options of ``lbhash train``."""
    words = []
    for name, value in settings.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", str(value)]
    return words


def drop_byproducts(folder):
    """Remove what ``lbhash train`` leaves beside a model and nothing reads."""
    for name in ("README.md", "metrics.json"):
        Path(folder, name).unlink(missing_ok=True)
    for name in ("checkpoints", "logs"):
        shutil.rmtree(Path(folder, name), ignore_errors=True)


def make_data():
    """A file of 120 embeddings of four classes, and labels of which every third row has two."""
    rng = np.random.default_rng(7)
    labels = rng.permutation(np.repeat([2, 3, 5, 7], 30))
    middles = 1.2 * rng.normal(size=(8, 12))
    x = np.round(middles[labels] + rng.normal(size=(120, 12)), 1).astype(np.float32)  # few numbers make a small file
    names = [f"row {row}" for row in range(len(x))]
    pq.write_table(pa.table({"embedding": list(x), "label": labels, "name": names}), "data.parquet")
    os.utime("data.parquet", (TIME, TIME))
    hot = np.eye(8, dtype=np.uint8)[labels]
    hot[::3, 1] = 1
    np.save("hot.npy", hot)
    return x, labels


def make_models(x, labels, arrays, facts):
    """Two models by ``lbhash train`` and one by ``Hasher``, whose head is linear and whose classes are words."""
    from lbhash import Hasher

    for name, settings in MODELS.items():
        run("train", "--data", "data.parquet", *options(settings | FEW_STEPS), "--out", f"models/{name}")
    words = np.array(["", "", "two", "three", "", "five", "", "seven"])[labels]
    given = {"bits": 12, "hidden": 0, "options": {"alpha": 0.2}, "centers": "hadamard", "lr": 0.01, "batch_size": 16}
    hasher = Hasher(method="hashnet", guided=False, epochs=6, seed=5, **given)
    hasher.fit(x, words).save_pretrained("models/hashnet")
    for folder in sorted(Path("models").iterdir()):
        drop_byproducts(folder)
        hasher = Hasher.from_pretrained(folder)
        assert abs(hasher.model_.outputs(x)).min() > 1e-5  # so that no rounding decides a bit
        arrays[f"codes {folder.name}"] = hasher.encode(x)
        held = json.loads((folder / "config.json").read_text())
        settings = {name: value for name, value in (held | held["about"]).items() if name in hasher.get_params()}
        facts["models"][folder.name] = {"name": hasher.name, "classes": hasher.classes_.tolist(), "settings": settings}


class Stop(Callback):
    """Ends the training in the middle of an epoch, as a kill would."""

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_index):
        """Raise an error in the second step of the epoch."""
        if (trainer.current_epoch, batch_index) == (STOP, 1):
            raise KeyError("stopped")


def make_unfinished(arrays, facts):
    """Trainings that were stopped in their third epoch, and the codes and logs of the same when they were not."""
    from lbhash import Hasher
    from lbhash.data import load_dataset

    part, classes = load_dataset("data.parquet").train.compact()
    for method, settings in UNFINISHED.items():
        folder, whole = f"unfinished/{method}", f"whole/{method}"
        settings = {"method": method, **settings, **FEW_STEPS}
        with suppress(KeyError):
            Hasher(**settings).fit_part(part, len(classes), directory=folder, logger="csv", callbacks=[Stop()])
        run("train", "--data", "data.parquet", *options(settings), "--out", whole)
        run("encode", "--model", whole, "--data", "data.parquet", "--out", f"{whole}.npz")
        arrays[f"codes whole {method}"] = np.load(f"{whole}.npz")["codes"]
        best = json.loads(Path(whole, "metrics.json").read_text())["training"]["epoch"]
        assert best == (1 if "monitor" in settings else 3)
        log = Path(whole, "logs", "metrics.csv").read_text()
        assert log.startswith(Path(folder, "logs", "metrics.csv").read_text())
        facts["unfinished"][method] = {"options": options(settings), "log": log}
    shutil.rmtree("whole")


def make_codes(arrays, facts):
    """Files of codes: of the queries in all formats, and of the base in one of each kind of labels."""
    from lbhash.codefile import read_codes

    os.mkdir("codes")
    model = ["encode", "--model", "models/csq_d", "--data", "data.parquet"]
    for split, kinds in (("query", ("npz", "parquet")), ("base", ("parquet",))):
        for kind in kinds:
            carry = ["--carry", "name"] if kind == "parquet" else []
            run(*model, "--split", split, *carry, "--out", f"codes/{split}.{kind}")
            run(*model, "--split", split, "--labels", "hot.npy", "--out", f"codes/{split}-hot.{kind}")
        table = read_codes(f"codes/{split}.parquet")
        arrays |= {f"rows {split}": table.rows.astype(np.int16), f"labels {split}": table.labels.astype(np.int16)}
        arrays[f"rows {split}-hot"] = read_codes(f"codes/{split}-hot.parquet").rows.astype(np.int16)
    query = read_codes("codes/query.npz")
    np.save("codes/query.npy", 2 * np.unpackbits(query.codes, axis=1, bitorder="little").view(np.int8) - 1)
    np.save("codes/query-labels.npy", query.labels)
    for kind in ("npz", "parquet"):
        short = ["--split", "query", "--protocol", "holdout", "--out", f"codes/short.{kind}"]
        run("encode", "--model", "models/hashnet", "--data", "data.parquet", *short)
    run(*model, "--split", "base", "--carry", "name", "--shard-rows", 40, "--out", "codes/shards")
    for name, more in (("", ["--probe"]), ("-hot", ["--normalize", "all"])):
        files = ["--queries", f"codes/query{name}.npz", "--base", f"codes/base{name}.parquet"]
        facts[f"report{name}"] = run("evaluate", *files, "--at", 20, "--rank", 5, "-k", 9, *more)


def make_indexes(arrays, facts):
    """An index of each kind with removed codes, the flat one of two segments; and what it finds, also when changed."""
    from lbhash.index import local, open_index

    local.MIN_ROWS = MIN_ROWS
    os.mkdir("indexes")
    source = ["--model", "models/csq_d", "--data", "data.parquet"]
    for kind, given in INDEXES.items():
        path = "milvus+indexes/milvus.db" if kind == "milvus" else f"indexes/{kind}"
        way = [] if kind == "milvus" else ["--kind", kind]
        run("index", "build", *way, *source, *given, "--out", path)
        if kind == "flat":
            run("index", "add", "--index", path, *source, "--split", "query", "--carry", "name")
        names = open_index(path).ids()
        run("index", "remove", "--index", path, *(word for name in names[5:20:5] for word in ("--id", name)))
        assert search(path, kind, arrays) == (kind in ("flat", "milvus"))
        facts["indexes"][kind] = run("index", "info", "--index", path)
        if kind == "flat":
            run("index", "export", "--index", path, "--out", "codes/exported.parquet")
            query = ["--index", path, *source, "--row", 3, "--row", 77, "-k", 5, "--candidates", 30]
            for by in ("asymmetric", "outputs"):
                answers = run("search", *query, "--rerank", by)["queries"]
                facts["reranked"][by] = [[[hit["id"], hit["score"]] for hit in one["neighbors"]] for one in answers]
        close(path)
        changed = path.replace("indexes", "changed")
        shutil.copytree("indexes", "changed")
        names = open_index(changed).ids()
        run("index", "remove", "--index", changed, *(word for name in names[[0, 30, 31]] for word in ("--id", name)))
        carry = ["--carry", "name"] if kind == "flat" else []
        run("index", "add", "--index", changed, *source, "--split", "query", *carry, "--ids", "next")
        search(changed, f"{kind} changed", arrays)
        close(changed)
        shutil.rmtree("changed")


def close(path):
    """End the process that has a file of Milvus Lite open."""
    if path.startswith("milvus+"):
        from milvus_lite.server_manager import server_manager_instance

        server_manager_instance.release_server(path.removeprefix("milvus+"))


def search(path, name, arrays):
    """Keep what an index finds; whether that is what a search of all its codes finds."""
    from lbhash.index import FlatIndex, open_index

    index = open_index(path)
    queries = arrays["codes csq_d"][::8]
    found, near = index.search(queries, 10), index.range_search(queries, 3)
    within = np.repeat(np.arange(len(queries)), np.diff(near.limits))
    arrays[f"ids {name}"] = index.ids().astype(np.int16)
    arrays[f"found {name}"] = np.array(found, np.int16)
    if "changed" not in name:
        arrays[f"filtered {name}"] = np.array(index.search(queries, 10, where={"label": [3, 7]}), np.int16)
        arrays[f"near {name}"] = np.array([within, near.distances, near.ids], np.int16)
    flat = FlatIndex(16)
    flat.add(index.codes_of(index.ids()), index.ids())
    return bool((found.distances == flat.search(queries, 10).distances).all())


def make_study(facts):
    """A search of settings with two trials, and the trials of the same with three."""
    given = ["tune", "--data", "data.parquet", *TUNED]
    held = run(*given, "--trials", 2, "--out", "study")["trials"]
    further = run(*given, "--trials", 3, "--out", "whole")["trials"][2:]
    facts["tuned"] = {"options": TUNED, "held": held, "further": further}
    for path in Path("study").iterdir():
        if path.name != "study.db":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree("whole")


def make_runs(facts):
    """The runs of an experiment, a host's and its guided form's, and its tables."""
    given = ["--data", "toy=data.parquet", *REPRODUCED, "--runs", "runs", "--out", "out"]
    run("reproduce", "tsne", *given)  # which keeps the codes too
    facts["reproduced"] = {"options": REPRODUCED, "tables": run("reproduce", "curves", *given)["tables"]}
    shutil.rmtree("out")


def make_images(arrays):
    """Images, a model of a backbone that was fine-tuned, one of a frozen backbone, and the embeddings it kept."""
    import torch
    import transformers
    from PIL import Image

    from lbhash import Hasher

    rng = np.random.default_rng(7)
    labels, tones = np.arange(16) % 4, 60 * rng.normal(size=(4, 3))
    images = []
    for label in labels:
        pixels = np.clip(128 + tones[label] + 25 * rng.normal(size=(8, 8, 3)), 0, 255).astype(np.uint8)
        held = BytesIO()
        Image.fromarray(pixels).save(held, "PNG")
        images.append(held.getvalue())
    table = pa.table({"image": [{"bytes": image, "path": None} for image in images], "label": labels})
    pq.write_table(table, "images.parquet")
    os.utime("images.parquet", (TIME, TIME))
    torch.manual_seed(0)
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 6], depths=[1, 1], layer_type="basic")
    transformers.ResNetModel(config).save_pretrained("backbone")
    processor = {"image_processor_type": "ConvNextImageProcessor", "do_resize": False, "do_rescale": True}
    processor |= {"rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    Path("backbone/preprocessor_config.json").write_text(json.dumps(processor))
    train = ["train", "--data", "images.parquet", *IMAGES]
    run(*train, "--backbone", "backbone", "--image-size", 8, "--out", "models/images")
    with kept_in("cache"):
        run(*train, "--backbone", "models/images/backbone", "--freeze", "--out", "models/frozen")
        for name in ("images", "frozen"):
            drop_byproducts(f"models/{name}")
            run("encode", "--model", f"models/{name}", "--data", "images.parquet", "--out", "codes.npz")
            arrays[f"codes {name}"] = np.load("codes.npz")["codes"]
            hasher = Hasher.from_pretrained(f"models/{name}")
            assert abs(hasher.model_.outputs(hasher.backbone_.embed(images))).min() > 1e-4
    shutil.rmtree("cache/centers", ignore_errors=True)
    shutil.rmtree("backbone")
    Path("codes.npz").unlink()


@contextmanager
def kept_in(folder):
    """Let lbhash keep in a folder what can be made again."""
    before = os.environ.get("LBHASH_CACHE", "")
    os.environ["LBHASH_CACHE"] = str(folder)
    yield
    os.environ["LBHASH_CACHE"] = before


def train_anew(x, labels, arrays):
    """Codes of small trainings, which today's code must come to as well."""
    from lbhash import Hasher

    given = {"bits": 16, "epochs": 3, "seed": 5, "hidden": 16, "batch_size": 16, "lr": 0.01, "device": "cpu"}
    for method, guided in (("csq", True), ("hashnet", False), ("greedyhash", True)):
        hasher = Hasher(method=method, guided=guided, **given)
        arrays[f"codes anew {method}"] = hasher.fit(x, labels).encode(x)


def pack():
    """Remove locks, and compress each large file that this makes much smaller, most of which is padding."""
    for file in [file for file in Path().rglob("*") if file.is_file()]:
        if file.name in (".lock", "lock", "index.lock"):
            file.unlink()
            continue
        content = file.read_bytes()
        packed = gzip.compress(content, 9, mtime=0)
        if len(content) > 2000 and len(packed) < 0.8 * len(content):
            file.with_name(f"{file.name}.gz").write_bytes(packed)
            file.unlink()


def main():
    """Make all files in a new folder, which is named as the argument."""
    Path(sys.argv[1]).mkdir()
    os.chdir(sys.argv[1])
    arrays, facts = {}, {"models": {}, "unfinished": {}, "indexes": {}, "reranked": {}}
    with TemporaryDirectory() as cache, kept_in(cache):
        x, labels = make_data()
        make_models(x, labels, arrays, facts)
        make_unfinished(arrays, facts)
        make_codes(arrays, facts)
        make_indexes(arrays, facts)
        make_study(facts)
        make_runs(facts)
        make_images(arrays)
        train_anew(x, labels, arrays)
    Path("hot.npy").unlink()
    np.savez("expected.npz", **arrays)
    Path("expected.json").write_text(json.dumps(facts, indent=1) + "\n")
    pack()


if __name__ == "__main__":
    main()
