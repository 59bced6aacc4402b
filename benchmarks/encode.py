"""What ``lbhash encode`` costs beside the bare model, and the memory that it takes.

    python benchmarks/encode.py --data images.parquet --backbone mobilenetv2

- "bare": backbone, head and packing in a plain loop over images that lie decoded in memory, preprocessed as they are
  needed, in a process of its own. It reads nothing, decodes nothing and writes nothing.
- "encode": ``lbhash encode`` into a folder, of the same images in a Parquet file. Its seconds are those that it says,
  from the first image to the last part; "start" is what the whole command takes besides, once.

Both take turns, with the same threads. The ratio is bare over encode in seconds an image, the median of the rounds; 1
is as quick. "memory" is the most that the command takes, its workers among it (proportional set size, looked at every
second); the last line has it for a quarter of the images.

Without ``--data`` the images are random; without ``--backbone`` an untrained MobileNetV2 embeds them. The figures
mean something where the images take much longer than the first of them, which loads what is still missing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from side_by_side import of_child, options, print_head, print_row

BARE = """
import sys, time
from io import BytesIO
import pyarrow.parquet as pq, torch
from PIL import Image
from lbhash.models.backbone import Backbone, pooled
from lbhash.codes import pack
from lbhash.models.encoder import load_encoder
from lbhash.models.hash_model import HashModel
data, folder, model, precision, size = sys.argv[1:]
backbone, head = Backbone.from_pretrained(folder), HashModel.of(load_encoder(model))
files = pq.read_table(data, columns=["image"])["image"].to_pylist()
images = [Image.open(BytesIO(file["bytes"])).convert("RGB") for file in files]
network, processor, codes = backbone.model, backbone.processor, []
def encode(batch):
    pixels = processor(batch, return_tensors="pt")["pixel_values"].to(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        embeddings = pooled(network, network(pixel_values=pixels))
    return pack(head(embeddings.float()).numpy())
with torch.inference_mode():
    encode(images[: int(size)])
    started = time.perf_counter()
    for at in range(0, len(images), int(size)):
        codes.append(encode(images[at : at + int(size)]))
print(time.perf_counter() - started)
"""


def main() -> None:
    """Measure, print."""
    parser = options(__doc__, rounds=3)
    parser.add_argument("--data", type=Path, help="a Parquet file of images; random ones if not given")
    parser.add_argument("--backbone", type=Path, help="a folder of transformers; an untrained one if not given")
    parser.add_argument("--rows", type=int, default=4000, help="images")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--precision", choices=["32", "bf16"], default="32")
    parser.add_argument("--workers", type=int, help="of encode; its default if not given")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch, in both")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(given.threads)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        backbone = given.backbone or random_backbone(place / "backbone")
        model = random_model(backbone, place / "model")
        every, quarter = (images(given.data, rows, place / f"{rows}.parquet") for rows in (given.rows, given.rows // 4))
        print(f"{given.rows:,} images, precision {given.precision}, {given.threads} threads\n")
        print_head("round", "bare, a second", "encode, a second", "bare / encode", "start, s", "memory, MiB", words=0)
        ratios = []
        for number in range(1, given.rounds + 1):
            (bare,) = of_child(BARE, every, backbone, model, given.precision, given.batch_size)
            seconds, whole, memory = encode(given, every, backbone, model)
            ratios.append(bare / seconds)
            rates = (f"{given.rows / took:,.1f}" for took in (bare, seconds))
            print_row(number, *rates, f"{ratios[-1]:.3f}", f"{whole - seconds:.1f}", f"{memory:,.0f}")
        print(f"\nmedian of bare / encode: {statistics.median(ratios):.3f}", flush=True)
        memory = encode(given, quarter, backbone, model)[2]
        print(f"memory for {given.rows // 4:,} images: {memory:,.0f} MiB")


def encode(given: argparse.Namespace, data: Path, backbone: Path, model: Path) -> tuple[float, float, float]:
    """Return the seconds of the encoding and of the whole command, and MiB."""
    out = model.with_name("codes")
    shutil.rmtree(out, ignore_errors=True)
    settings = {"model": model, "backbone": backbone, "out": out, "workers": given.workers}
    settings |= {"batch-size": given.batch_size, "precision": given.precision}
    words = [word for name, value in settings.items() if value is not None for word in (f"--{name}", str(value))]
    started, most = time.perf_counter(), 0
    command = [sys.executable, "-m", "lbhash", "encode", str(data), *words, "--json"]
    with subprocess.Popen(command, stdout=-1, stderr=-3) as run:
        process = psutil.Process(run.pid)
        while run.poll() is None:
            most = max(most, held_by(process))
            with suppress(subprocess.TimeoutExpired):
                run.wait(1)
        assert run.stdout is not None
        facts = json.loads(run.stdout.read())
    return facts["seconds"], time.perf_counter() - started, most / 2**20


def held_by(process: psutil.Process) -> int:
    """Return the bytes of a process and its children, of what they share each its part."""
    total = 0
    for one in (process, *process.children(recursive=True)):
        try:
            total += one.memory_full_info().pss
        except psutil.Error:  # it has just ended
            continue
    return total


def images(data: Path | None, rows: int, out: Path) -> Path:
    """Write a Parquet file of so many images, from the first one of the data on, and again from there if need be."""
    if data is None:
        from PIL import Image

        rng, files = np.random.default_rng(0), []
        for _ in range(min(rows, 500)):
            held = BytesIO()
            Image.fromarray(rng.integers(0, 256, (6, 6, 3), np.uint8)).resize((160, 120)).save(held, "JPEG")
            files.append({"bytes": held.getvalue(), "path": None})
        table = pa.table({"image": files})
    else:
        table = pq.read_table(data, columns=["image"])
    taken = table.take(pa.array(np.arange(rows) % len(table)))
    pq.write_table(taken, out, row_group_size=1000)
    return out


def random_backbone(folder: Path) -> Path:
    """Write a MobileNetV2 that looks at 128 × 128 pixels."""
    from transformers import MobileNetV2Config, MobileNetV2ImageProcessor, MobileNetV2Model

    MobileNetV2Model(MobileNetV2Config()).save_pretrained(folder)
    size = {"height": 128, "width": 128}
    MobileNetV2ImageProcessor(size={"shortest_edge": 146}, crop_size=size).save_pretrained(folder)
    return folder


def random_model(backbone: Path, folder: Path) -> Path:
    """Write a head of 64 bits."""
    from lbhash.models.backbone import Backbone
    from lbhash.models.hash_model import HashModel

    HashModel(Backbone.from_pretrained(backbone).dim, 64, metadata={"classes": [0]}).encoder().save(folder)
    return folder


if __name__ == "__main__":
    main()
