"""What is to be encoded and how, in words that a process on another machine understands too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lbhash.data.dataset import SPLITS
from lbhash.utils.system import usable_cores

if TYPE_CHECKING:
    from lbhash.models.backbone import Precision
    from lbhash.pipeline.embeddings import ImageOptions

T = TypeVar("T", "Job", "ImageOptions")


@dataclass(frozen=True)
class Job:
    """A model, rows of a data set, and how the one is to encode the other.

    Attributes:
        model: a folder that ``lbhash train`` wrote.
        data: a data set.
        split: train, base or query, or all the rows of one file.
        base: as of ``lbhash.data.load_dataset``.
        query: as of ``lbhash.data.load_dataset``.
        labels: as of ``lbhash.data.load_dataset``.
        protocol: that of the training where it is not given.
        split_seed: that of the training where it is not given.
        images: how images are embedded; by the model's own backbone, as their files' names tell, if not given.
        carry: columns of the data that go along with the codes.
        batch_size: images in a pass through the backbone; 32 where it is not given.
        precision: of the backbone, ``32`` or ``bf16``; 32 where it is not given.
        workers: processes that decode images beside the model; where not given, ``default_workers``.
        unreadable: the rows of the data whose image is known to be damaged or missing; ``None`` where nobody has
            looked. A split is drawn from the others.
    """

    model: str
    data: str
    split: str = "all"
    base: str | None = None
    query: str | None = None
    labels: str | None = None
    protocol: str | None = None
    split_seed: int | None = None
    images: ImageOptions | None = None
    carry: tuple[str, ...] = ()
    batch_size: int | None = None
    precision: Precision | None = None
    workers: int | None = None
    unreadable: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.split not in (*SPLITS, "all"):
            raise ValueError(f"split is {self.split!r}; it must be one of {', '.join(SPLITS)}, or all")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}; it must be at least 1")
        if self.workers is not None and self.workers < 0:
            raise ValueError(f"workers is {self.workers}; it must be at least 0")
        if self.precision not in (None, "32", "bf16"):
            raise ValueError(f"precision is {self.precision!r}; it must be 32 or bf16")

    def anywhere(self) -> Job:
        """The same with paths that do not depend on where a process was started."""
        images = None if self.images is None else _absolute(self.images, "backbone", "images", "classes")
        return replace(_absolute(self, "model", "data", "base", "query", "labels"), images=images)


def default_workers(device: str) -> int:
    """Processes that decode where nobody says how many: one less than the cores that this process may use, up to 8.

    On a CPU of two cores there are none: the model's threads wait for each other, and a third process makes them wait
    longer than it saves (``benchmarks/encode.py``).

    Args:
        device: of the model, as PyTorch names its type.
    """
    cores = usable_cores()
    return 0 if device == "cpu" and cores <= 2 else min(cores - 1, 8)


def _absolute(options: T, *names: str) -> T:
    """With these paths absolute where they lead somewhere; names of data sets and ids of the Hub stay as they are."""
    given = {name: getattr(options, name) for name in names}
    there: dict[str, Any] = {
        name: str(Path(path).absolute()) for name, path in given.items() if path is not None and Path(path).exists()
    }
    return replace(options, **there)
