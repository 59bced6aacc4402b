"""Folders of codes, and their evaluation, by a Ray cluster."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from image_tools import stored, write_small_resnet
from lbhash.codes.io import CodeTable, read_codes, write_codes
from lbhash.data import load_table
from lbhash.evaluation.parts import Part
from lbhash.models.hash_model import HashModel
from lbhash.pipeline.cluster import sharing
from lbhash.pipeline.embeddings import ImageOptions
from lbhash.pipeline.encode import encode_folder
from lbhash.pipeline.encoding.factory import open_source
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.pipeline.encoding.ray import PartEncoder
from lbhash.pipeline.evaluate import evaluate_files
from lbhash.utils.parts import PART_ROWS, Parts

pytestmark = pytest.mark.end_to_end

ROWS, DIM = 400, 12
IMAGES, LOST = 500, 333  # of which one is damaged
MEMORY = 100 * 2**20  # of an object store


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    import torch

    folder = tmp_path_factory.mktemp("model")
    with torch.random.fork_rng():
        torch.manual_seed(3)
        HashModel(DIM, 20, hidden=8, metadata={"classes": [0]}).encoder().save(folder)
    return folder


@pytest.fixture
def data(tmp_path, write_parquet):
    embeddings = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)
    return write_parquet(tmp_path / "data.parquet", embeddings, row_group_size=150, label=pa.array(np.arange(ROWS)))


def contents(folder):
    return {file.name: file.read_bytes() for file in Path(folder).iterdir() if file.name != ".lock"}


def batch_of(part):
    """A part as Ray hands it to a worker."""
    return {"start": np.array([part.start]), "stop": np.array([part.stop])}


def in_parts_of(rows, monkeypatch):
    for unit in PART_ROWS:
        monkeypatch.setitem(PART_ROWS, unit, rows)


# ------------------------------------------------------------------------------------------------- without a cluster


def test_ray_is_asked_for(model, data, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"^engine is 'ray', which needs the package ray: pip install 'lbhash\[ray\]'"):
        encode_folder(EncodingJob(str(model), str(data)), tmp_path / "codes", engine="ray")
    assert not (tmp_path / "codes").exists()


@pytest.fixture
def parts(model, data, tmp_path):
    """A folder of parts, before there are any."""
    facts = open_source(EncodingJob(str(model), str(data)), stream=True).facts
    return Parts(tmp_path / "codes", {**facts, "part_rows": 90})


def test_workers_encode_any_parts_in_any_order(model, data, tmp_path, monkeypatch, parts):
    job = EncodingJob(str(model), str(data))
    in_parts_of(90, monkeypatch)
    encode_folder(job, tmp_path / "whole", progress=False)
    one, other = (PartEncoder(*pickle.loads(pickle.dumps((job, parts, str(tmp_path))))) for _ in range(2))
    for worker, at in ((one, 3), (other, 0), (one, 1), (other, 3), (one, 3), (other, 4), (one, 2)):
        assert worker(batch_of(parts.ranges[at])) == {"rows": [len(parts.ranges[at])], "error": [""]}
    whole = contents(tmp_path / "whole")
    assert contents(parts.folder) == {file.name: whole[file.name] for file in map(parts.file, parts.ranges)}
    monkeypatch.setattr("lbhash.pipeline.encoding.factory.open_source", None)
    third = PartEncoder(job, parts, str(tmp_path))  # a part that is there is not encoded again
    assert third(batch_of(parts.ranges[0]))["error"] == [""]


def test_what_a_worker_finds_otherwise_is_refused(model, data, tmp_path, parts):
    job = EncodingJob(str(model), str(data))
    other = PartEncoder(job, Parts(parts.folder, {**parts.facts, "files": "other"}), str(tmp_path))
    said = "a worker of the cluster finds other data or another model than this process (files: 'other' there"
    assert other(batch_of(parts.ranges[0]))["error"][0].startswith(said)
    data.unlink()
    said = f"data is '{data}', and there is no such file"
    assert other(batch_of(parts.ranges[0]))["error"] == [said]
    assert not parts.folder.exists()


def test_paths_lead_there_from_anywhere(model, data, tmp_path, monkeypatch, parts):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    worker = PartEncoder(EncodingJob(str(model), data.name), parts, str(tmp_path))
    assert worker(batch_of(parts.ranges[0]))["error"] == [""]
    assert Path.cwd() == tmp_path
    PartEncoder(EncodingJob(str(model), str(data)), parts, str(tmp_path / "missing"))  # no machine needs the folder


@pytest.mark.parametrize("address", ["ray://127.0.0.1:1", "127.0.0.1:many"])
def test_where_no_cluster_answers(model, data, tmp_path, address):
    pytest.importorskip("ray.data")
    with pytest.raises(ValueError, match=f"^ray_address is '{address}', and there is no cluster of Ray: "):
        encode_folder(
            EncodingJob(str(model), str(data)), tmp_path / "codes", engine="ray", ray_address=address, progress=False
        )


# ------------------------------------------------------------------------------------------------- with one


@pytest.fixture
def ray_of_the_test(monkeypatch):
    pytest.importorskip("ray.data")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_DEDUP_LOGS", "0")


@pytest.fixture
def program(tmp_path):
    """A function that starts ``lbhash encode --engine ray`` in a process of its own."""

    def start(out, *arguments):
        few = "from lbhash.utils.parts import PART_ROWS; PART_ROWS |= dict(rows=70, images=20)"
        command = [sys.executable, "-c", f"{few}; from lbhash.cli.app import main; main()"]
        command += ["encode", "--engine", "ray", "--json", "--out", str(out)]
        return subprocess.Popen(
            [*command, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )

    return start


@pytest.mark.slow
def test_a_cluster_of_this_machine(model, data, tmp_path, ray_of_the_test, program, monkeypatch):
    in_parts_of(70, monkeypatch)
    encode_folder(EncodingJob(str(model), str(data)), tmp_path / "whole", progress=False)
    run = program("codes", data.name, "--model", model)
    out, err = run.communicate(timeout=600)
    assert run.returncode == 0, err
    facts = json.loads(out)
    assert (facts["codes"], facts["rows"], facts["parts"], facts["found"]) == (ROWS, ROWS, 6, 0)
    assert contents(tmp_path / "codes") == contents(tmp_path / "whole")
    # Row 250 cannot be encoded, which a worker finds out.
    embeddings = np.array(load_table(data).embeddings)
    embeddings[250, 3] = np.nan
    np.save(tmp_path / "bad.npy", embeddings)
    run = program("bad", "bad.npy", "--model", model)
    out, err = run.communicate(timeout=600)
    assert (run.returncode, out) == (2, "")
    line = "lbhash: error: embeddings of data is NaN or infinite in row 250; every number must be finite"
    line += ": mend them, or leave them out (--damaged skip)"
    assert err.splitlines()[-1] == line


@pytest.fixture
def images(tmp_path):
    """Images that take some 30 ms each, a backbone and a model."""
    import pyarrow.parquet as pq
    from PIL import Image

    from lbhash.models.backbone import Backbone

    pytest.importorskip("transformers")
    (tmp_path / "backbone").mkdir()
    backbone = Backbone.from_pretrained(write_small_resnet(tmp_path / "backbone"))
    HashModel(backbone.dim, 64, hidden=0, metadata={"backbone": backbone.metadata()}).encoder().save(tmp_path / "model")
    rng = np.random.default_rng(0)
    distinct = []
    for _ in range(23):  # so that parts of 20 are all different
        noise = Image.fromarray(rng.integers(0, 256, (480, 480, 3), np.uint8))
        distinct.append({"bytes": stored(noise), "path": None})
    files = [distinct[row % 23] for row in range(IMAGES)]
    files[LOST] = {"bytes": b"junk", "path": None}
    labels = np.arange(IMAGES) % 7
    pq.write_table(pa.table({"image": files, "label": labels}), tmp_path / "data.parquet", row_group_size=90)
    return (tmp_path / "data.parquet", "--model", tmp_path / "model", "--damaged", "skip", "--workers", 0)


@pytest.mark.slow
def test_a_node_is_killed_and_no_row_is_lost_or_there_twice(images, tmp_path, ray_of_the_test, program, monkeypatch):
    import psutil
    from ray.cluster_utils import Cluster

    started = time.monotonic()
    node_args = {"num_cpus": 1, "object_store_memory": MEMORY}
    cluster = Cluster(initialize_head=True, head_node_args={**node_args, "include_dashboard": False})
    try:
        node = cluster.add_node(**node_args)
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        out = tmp_path / "codes"
        run = program(out, *images, "--ray-address", cluster.address)
        while len(there := list(out.glob("part-*"))) < 6 or not reads(raylet, tmp_path / "data.parquet"):
            assert run.poll() is None, run.communicate()[1]
            assert len(there) < 20, "the second node had no part in it"
            assert time.monotonic() - started < 600
            time.sleep(0.2)
        cluster.remove_node(node, allow_graceful=False)  # by SIGKILL, in the middle of a part
        assert len(list(out.glob("part-*"))) < 25
        told, err = run.communicate(timeout=900)
    finally:
        cluster.shutdown()
    assert run.returncode == 0, err
    facts = json.loads(told)
    assert (facts["codes"], facts["damaged"], facts["rows"], facts["parts"]) == (499, 1, 500, 25)
    found = read_codes(out)
    assert found.rows.tolist() == [row for row in range(IMAGES) if row != LOST]
    assert found.labels.tolist() == [row % 7 for row in found.rows.tolist()]
    job = EncodingJob(str(images[2]), str(images[0]), images=ImageOptions(damaged="skip"), workers=0)
    in_parts_of(20, monkeypatch)
    encode_folder(job, tmp_path / "local", progress=False)
    assert contents(out) == contents(tmp_path / "local")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["names", "multi"])
def test_an_evaluation_by_two_nodes_is_that_of_one_process(kind, ray_of_the_test, tmp_path):
    import ray
    from ray.cluster_utils import Cluster

    rng = np.random.default_rng(0)
    codes, labels = rng.integers(0, 256, (970, 3), np.uint8), rng.integers(0, 5, 970)
    several = (rng.random((970, 5)) < 0.4).astype(np.uint8)
    names = tuple("abcde") if kind == "names" else ()
    files = []
    for name, rows in (("queries", slice(70)), ("base", slice(70, None))):
        given = (labels if names else several)[rows]
        table = CodeTable(codes[rows], 24, np.arange(len(given)), given, class_names=names)
        write_codes(tmp_path / f"{name}.parquet", table)
        files.append(tmp_path / f"{name}.parquet")
    options = {"top_k": 50, "k": 9, "normalize": "all"}
    whole = evaluate_files(*files, **options)
    node_args = {"num_cpus": 1, "object_store_memory": MEMORY}
    cluster = Cluster(initialize_head=True, head_node_args={**node_args, "include_dashboard": False})
    try:
        cluster.add_node(**node_args)
        cluster.wait_for_nodes()
        found = evaluate_files(*files, engine="ray", ray_address=cluster.address, **options)
        with sharing(cluster.address) as (cores, share):
            parts = [Part(codes, labels)] * 8
            places = share(parts)(lambda part: (ray.get_runtime_context().get_node_id(), len(part.codes)))
    finally:
        cluster.shutdown()
    assert found.as_dict() == whole.as_dict()
    np.testing.assert_array_equal(found.bound.intra_counts, whole.bound.intra_counts)
    np.testing.assert_array_equal(found.bound.centers, whole.bound.centers)
    assert cores == 2
    assert len({node for node, _ in places}) == 2
    assert [rows for _, rows in places] == [970] * 8


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ["--engine", "ray", "--ties", "stable"],
            "--engine is 'ray', and --ties is 'stable'; a cluster counts the base in parts",
        ),
        (["--engine", "ray", "--probe"], "--engine is 'ray', and --probe is given; a cluster counts the base in parts"),
        (
            ["--ray-address", "auto"],
            "--ray-address is 'auto', and --engine is not given; it is the address of a Ray cluster: give --engine ray",
        ),
        (
            ["--engine", "ray", "--neighbors", "x.npy"],
            "--neighbors is 'x.npy', and --engine is 'ray'; neighbors are found without labels",
        ),
    ],
)
def test_what_a_cluster_does_not_evaluate_is_refused(options, line, refuse, ray_of_the_test):
    assert line in refuse("evaluate", "--queries", "q.npz", "--base", "b.npz", *options)


def reads(raylet, file):
    """Whether a worker of this node has the file open, as it does while it encodes."""
    import psutil

    for child in raylet.children(recursive=True):
        try:
            if any(Path(opened.path) == file for opened in child.open_files()):
                return True
        except psutil.Error:  # it has just ended
            continue
    return False
