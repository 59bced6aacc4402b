"""What fine-tuning costs beside a plain PyTorch loop, and what the guidance adds to it, side by side in one run.

    python benchmarks/finetuning.py --data IMAGES --backbone FOLDER --image-size 96
    python benchmarks/finetuning.py --device gpu --precision 16 --image-size 224 --steps 100

- "plain": cross-entropy of a linear layer on the same backbone, in the loop that everybody writes: a ``DataLoader``,
  zero the gradients, forward, backward, step. "as loaded" has the model as ``transformers`` gives it; "prepared" has it
  in the layout, and with the padding, that lbhash gives it.
- host and guided: ``lbhash.training.train`` with everything that it does in an epoch: losses, surrogate, the memory of
  the training set, the bound, the log.

All read the same images with the same augmentation and the same workers, and take turns in one process. A round is an
epoch of so many steps for each; the first, in which much is loaded, is left out. The figures are medians over the
rounds, and the ratios medians of those of each round.

Without ``--data`` the images are random values that lie in memory, so that the training alone is measured; without
``--backbone`` it is a ResNet-50 of random weights.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

from lbhash.centers import class_centers
from lbhash.losses import Task
from lbhash.losses.registry import build_objective
from lbhash.models.backbone import Backbone, pooled_output
from lbhash.models.hash_model import HashModel
from lbhash.training import Settings, train
from lbhash.training.images import Augmentation, ImageModel, ImageRows, resized
from side_by_side import in_turns, median_ratio, options, print_head, print_row

CLASSES = 10


class RandomRows:
    """Rows as ``lbhash.training`` takes them, of random pixels that lie in memory."""

    def __init__(self, count: int, size: int) -> None:
        generator = torch.Generator().manual_seed(0)
        held = torch.randn(min(count, 256), 3, size, size, generator=generator)
        self._pixels = held.contiguous(memory_format=torch.channels_last)
        self.labels = torch.arange(count) % CLASSES

    def __len__(self) -> int:
        return len(self.labels)

    def inputs(self, index: np.ndarray, epoch: int) -> Tensor:
        """The pixels at these positions, some of them again and again."""
        return self._pixels[torch.from_numpy(index % len(self._pixels))]

    def fingerprint(self) -> str:
        """Of a run that keeps no checkpoint."""
        return ""


class Batches:
    """What a ``DataLoader`` reads a batch at a time."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __getitem__(self, index: np.ndarray) -> tuple[Tensor, Tensor]:
        return self.rows.inputs(index, 0), self.rows.labels[torch.from_numpy(index)]


def plain(rows: Any, backbone: Backbone, given: argparse.Namespace, layout: torch.memory_format) -> float:
    """Return images a second of the loop that everybody writes."""
    device = torch.device("cuda" if given.device == "gpu" else "cpu")
    network = copy.deepcopy(backbone.model).to(device, memory_format=layout).train()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    classifier = nn.Linear(backbone.dim, CLASSES).to(device)
    groups = [{"params": network.parameters(), "lr": 1e-4}, {"params": classifier.parameters()}]
    optimizer = torch.optim.Adam(groups, lr=1e-3, fused=True)
    kinds = {"32": None, "bf16": torch.bfloat16, "16": torch.float16}
    kind = kinds[given.precision]
    scaler = torch.amp.GradScaler(device.type, enabled=given.precision == "16")
    order = np.random.default_rng(0).permutation(len(rows)).reshape(-1, given.batch_size)
    loader = DataLoader(
        Batches(rows),  # type: ignore[arg-type]
        sampler=list(order),  # type: ignore[arg-type]
        batch_size=None,
        num_workers=given.workers,
        pin_memory=device.type == "cuda",
    )
    torch.set_num_threads(given.threads)
    started = time.perf_counter()
    for pixels, labels in loader:
        pixels, labels = pixels.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        pixels = pixels.contiguous(memory_format=layout)
        optimizer.zero_grad()
        with torch.autocast(device.type, kind, enabled=kind is not None):
            loss = F.cross_entropy(classifier(pooled_output(network, pixels)), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    loss.item()  # what a GPU was asked has been done
    seconds = time.perf_counter() - started
    return len(rows) / seconds


def ours(rows: Any, backbone: Backbone, given: argparse.Namespace, bits: int, *, pull: str) -> float:
    """Return images a second of lbhash's training."""
    centers = torch.from_numpy(class_centers(CLASSES, bits)).float()
    objective = build_objective(given.method, Task(bits, CLASSES, rows.labels, centers), pull)
    model = ImageModel(copy.deepcopy(backbone.model), HashModel(backbone.dim, bits))
    trained = train(
        model,
        objective,
        rows,
        Settings(
            epochs=1,
            batch_size=given.batch_size,
            backbone_lr=1e-4,
            device=given.device,
            threads=given.threads,
            precision=given.precision,
            workers=given.workers,
        ),
    )
    assert trained.rows_per_second is not None
    return trained.rows_per_second


def main() -> None:
    """Measure, print."""
    parser = options(__doc__, rounds=3)
    parser.add_argument("--data", help="images; random pixels if not given")
    parser.add_argument("--backbone", help="a folder of transformers; an untrained ResNet-50 if not given")
    parser.add_argument("--method", default="csq")
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32, 64])
    parser.add_argument("--image-size", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=40, help="of an epoch")
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--precision", choices=["32", "bf16", "16"], default="32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = given.backbone or random_backbone(Path(place))
        prepared = resized(Backbone.from_pretrained(folder), given.image_size)
        loaded, rows = as_loaded(folder, prepared), images(given, prepared)
        turns: dict[str, Callable[[], float]] = {
            "plain, as loaded": partial(plain, rows, loaded, given, torch.contiguous_format),
            "plain, prepared": partial(plain, rows, prepared, given, torch.channels_last),
        }
        for bits in given.bits:
            for guided in (False, True):
                name = f"{given.method}{'_d' if guided else ''}, {bits} bits"
                turns[name] = partial(ours, rows, prepared, given, bits, pull="surrogate" if guided else "none")
        rates = in_turns(turns, given.rounds, warm_up=1)
    print(
        f"{len(rows):,} images an epoch, {given.image_size} px, batch {given.batch_size}, precision {given.precision}\n"
    )
    print_head("what", "images a second", "seconds an epoch", "/ plain, as loaded", "/ plain, prepared", "/ its host")
    for name, seen in rates.items():
        rate, host = statistics.median(seen), rates[name.replace("_d,", ",")]
        beside = (median_ratio(seen, other) for other in (rates["plain, as loaded"], rates["plain, prepared"], host))
        print_row(name, f"{rate:.1f}", f"{len(rows) / rate:.2f}", *(f"{ratio:.3f}" for ratio in beside))


def images(given: argparse.Namespace, backbone: Backbone) -> Any:
    """The rows: of the data's training images, or random ones."""
    count = given.steps * given.batch_size
    if given.data is None:
        return RandomRows(count, given.image_size)
    from dataclasses import replace

    from lbhash.data.images import load_images

    table = load_images(given.data)
    part = table.dataset().train
    if len(part) < count:
        raise SystemExit(f"steps is {given.steps}; the training images, {len(part):,}, make fewer")
    part = replace(part, rows=part.rows[:count], labels=part.labels[:count])
    rows = ImageRows(part, backbone, augmentation=Augmentation())
    rows.inputs(np.arange(count), 0)  # they are held decoded from now on
    return rows


def as_loaded(folder: str | Path, prepared: Backbone) -> Backbone:
    """The backbone with the model as ``transformers`` gives it."""
    from transformers import AutoModel

    return Backbone(AutoModel.from_pretrained(folder), prepared.processor, prepared.name)


def random_backbone(folder: Path) -> Path:
    """A ResNet-50."""
    from transformers import ConvNextImageProcessor, ResNetConfig, ResNetModel

    ResNetModel(ResNetConfig()).save_pretrained(folder)
    ConvNextImageProcessor(size={"shortest_edge": 224}).save_pretrained(folder)
    return folder


if __name__ == "__main__":
    main()
