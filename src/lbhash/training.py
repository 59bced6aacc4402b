"""Training: the paper's Algorithm 1 as a Lightning module, with checkpoints that survive a kill."""

from __future__ import annotations

import csv
import logging
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from lbhash.codes import pack
from lbhash.data.dataset import Part
from lbhash.files import replacing
from lbhash.labels import check_count
from lbhash.lower_bound import bound
from lbhash.model import HashModel
from lbhash.objectives import Objective
from lbhash.objectives.base import check_loss

CHECKPOINT = "last.ckpt"


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to learn.

    Attributes:
        epochs: passes over the training set.
        batch_size: rows in a step.
        lr: Adam's learning rate, of model and surrogate alike.
        decay: factor of the learning rate every ``decay_every`` epochs.
        decay_every: epochs between two decays.

    The defaults but the epochs are the paper's, which trains for 100.
    """

    epochs: int = 30
    batch_size: int = 64
    lr: float = 1e-3
    decay: float = 0.1
    decay_every: int = 10

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 2), ("decay_every", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} is {value!r}; it must be an integer of at least {least}")
            if value < least:
                raise ValueError(f"{name} is {value}; it must be at least {least}")
        for name in ("lr", "decay"):
            rate: Any = getattr(self, name)
            if isinstance(rate, bool) or not isinstance(rate, Real):
                raise TypeError(f"{name} is {rate!r}; it must be a number above 0")
            if not 0 < float(rate) < math.inf:
                raise ValueError(f"{name} is {rate}; it must be above 0 and finite")

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, which counts from 0."""
        return self.lr * self.decay ** (epoch // self.decay_every)


class HashingModule(L.LightningModule):
    """Algorithm 1: one Adam over the model and what the objective learns itself, the surrogate among it.

    Logs each epoch: ``loss``, and ``inter``, ``intra`` and ``ratio`` of the codes that the epoch's batches had when
    they were seen, which costs no further pass over the data.
    """

    def __init__(self, model: HashModel, objective: Objective, schedule: Schedule, seed: int) -> None:
        super().__init__()
        self.model = model
        self.objective = objective
        self.schedule = schedule
        self.seed = seed
        self._codes: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []

    def on_train_epoch_start(self) -> None:
        """The learning rate follows from the epoch alone, so that a resumed run repeats the killed one."""
        epoch = self.current_epoch
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = self.schedule.rate(epoch)
        self.objective.begin_epoch(epoch)
        self._codes, self._labels = [], []

    def training_step(self, batch: tuple[Tensor, Tensor, Tensor], batch_index: int) -> Tensor:
        """The loss of a batch of embeddings, labels and positions in the training set."""
        # From seed, epoch and step alone, so that a resumed run repeats the killed one; and the model draws first, so
        # that a host and its guided form see the same dropout of their inputs.
        draw_from(self.seed, self.current_epoch, batch_index)
        x, labels, index = batch
        logits = self.model(x)
        loss = self.objective(logits, labels, index)
        check_loss(loss, self.objective, logits)
        if not torch.isfinite(loss):
            raise ValueError(f"the loss is {loss.item()} in epoch {self.current_epoch}; a smaller lr may help")
        self._codes.append(pack(logits.detach().float().cpu().numpy()))
        self._labels.append(labels.cpu().numpy())
        self.log("loss", loss, on_step=False, on_epoch=True, batch_size=len(x))
        return loss

    def on_train_epoch_end(self) -> None:
        """Log the bound of the epoch's codes."""
        found = bound(np.concatenate(self._codes), np.concatenate(self._labels).astype(np.int64))
        self.log_dict({"inter": float(found.inter), "intra": float(found.intra), "ratio": float(found.ratio)})

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam, fused: on a CPU a third of the time of the plain one."""
        return torch.optim.Adam(self.parameters(), lr=self.schedule.lr, fused=True)


def draw_from(*seeds: int) -> None:
    """Let PyTorch's generators start from these numbers."""
    state = np.random.SeedSequence(seeds).generate_state(1, np.uint64).item()
    torch.default_generator.manual_seed(state)  # torch.manual_seed does the same in twenty times the time
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(state)


class _Rows(Dataset):
    """Batches of a split: a list of positions in, tensors out, converted to float32 a batch at a time."""

    def __init__(self, part: Part) -> None:
        self.part = part
        assert part.labels is not None
        labels = torch.from_numpy(part.labels)
        self.labels = labels if labels.ndim == 1 else labels.float()

    def __len__(self) -> int:
        return len(self.part)

    def __getitem__(self, index: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        positions = torch.from_numpy(index)
        return torch.from_numpy(self.part.take(index)), self.labels[positions], positions


class ShuffledBatches(Sampler):
    """Batches in an order that follows from seed and epoch alone.

    A last batch of one row, which has no pair, joins the batch before it.
    """

    def __init__(self, rows: int, batch_size: int, seed: int) -> None:
        self.rows, self.batch_size, self.seed, self.epoch = rows, batch_size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        full, rest = divmod(self.rows, self.batch_size)
        return max(1, full + (rest > 1))

    def __iter__(self) -> Iterator[np.ndarray]:
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.rows)
        last = len(self) - 1
        for batch in range(len(self)):
            yield order[batch * self.batch_size : None if batch == last else (batch + 1) * self.batch_size]


class _AtomicCheckpoints(TorchCheckpointIO):
    """Lightning's checkpoints, written beside their place and renamed: a kill leaves the old one or the new one."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        with replacing(path) as temporary:
            torch.save(checkpoint, temporary)


class _RunIdentity(Callback):
    """Keeps a run's settings in its checkpoints, so that another run does not resume from them."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    def on_save_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        checkpoint["lbhash_settings"] = self.settings


def train(
    model: HashModel,
    objective: Objective,
    part: Part,
    schedule: Schedule,
    *,
    seed: int = 0,
    directory: str | Path | None = None,
    resume: bool = False,
    logger: Literal["csv", "tensorboard"] | None = None,
    device: str = "auto",
    threads: int = 1,
    callbacks: list[Callback] | None = None,
    settings: dict[str, Any] | None = None,
) -> None:
    """Train ``model`` in place.

    Args:
        model: its standardisation is set from ``part`` first.
        objective: the loss.
        part: the training rows.
        schedule: length and learning rate.
        seed: of batches and dropout; the model's own weights are drawn by who made it.
        directory: where checkpoints (one an epoch, the last is kept) and logs go; neither is written without.
        resume: go on from the directory's checkpoint, if there is one. The codes are the same, bit for bit, as those
            of a run that was never interrupted.
        logger: of the values of each epoch, under ``directory``.
        device: Lightning's accelerator: auto, cpu, gpu …
        threads: of PyTorch on a CPU while it trains. A step on embeddings is so short that two threads gain little on
            an idle machine, and lose tenfold on a busy one, where they wait for each other at every operation.
        callbacks: further Lightning callbacks, a progress bar for instance.
        settings: whatever else identifies the run; a checkpoint with other settings is refused.
    """
    threads = check_count(threads, "threads")
    folder = None if directory is None else Path(directory)
    identity = {**asdict(schedule), "seed": seed, "rows": len(part), **(settings or {})}
    if folder is not None:
        identity["fingerprint of the rows"] = part.fingerprint()
    checkpoint = _checkpoint_to_resume(folder, identity) if resume else None
    model.set_standardisation(*part.standardisation())
    loader = DataLoader(
        _Rows(part),
        sampler=ShuffledBatches(len(part), schedule.batch_size, seed),
        batch_size=None,
        num_workers=0,
        generator=torch.Generator(),  # else an epoch's iterator draws from PyTorch's, sooner in a resumed run
    )
    hooks: list[Callback] = [*(callbacks or []), _RunIdentity(identity)]
    if folder is not None:
        hooks.append(
            ModelCheckpoint(
                folder / "checkpoints",
                filename=Path(CHECKPOINT).stem,
                save_top_k=1,
                enable_version_counter=False,
                save_on_train_epoch_end=True,
            )
        )
    with _quiet_lightning(), cpu_settings(threads), torch.random.fork_rng():
        trainer = _trainer(
            accelerator=device,
            devices=1,
            max_epochs=schedule.epochs,
            callbacks=hooks,
            logger=False,
            plugins=[_AtomicCheckpoints()],
            enable_checkpointing=folder is not None,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
        )
        trainer.logger = _logger(logger, folder, checkpoint)  # only now, for it writes
        model.train()  # Lightning leaves a module in the mode in which it came
        objective.train()
        module = HashingModule(model, objective, schedule, seed)
        trainer.fit(module, loader, ckpt_path=checkpoint, weights_only=True)
        model.cpu().eval()
        objective.cpu().eval().end_training()
    # A trainer and its module refer to each other, and stay until Python looks for such cycles: with nothing large.
    del module.model, module.objective
    trainer.strategy.optimizers = []


def check_machine(device: str, threads: int) -> None:
    """Raise ``ValueError`` with a line unless one can train on this device with so many threads."""
    check_count(threads, "threads")
    with _quiet_lightning():
        _trainer(device, devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False)


def has_checkpoint(directory: str | Path) -> bool:
    """Whether there is something to resume."""
    return _checkpoint(Path(directory)).is_file()


def _checkpoint(folder: Path) -> Path:
    return folder / "checkpoints" / CHECKPOINT


def _checkpoint_to_resume(folder: Path | None, identity: dict[str, Any]) -> Path | None:
    if folder is None:
        raise ValueError("resume needs a directory that holds the checkpoint")
    if not has_checkpoint(folder):
        return None
    path = _checkpoint(folder)
    try:
        held = torch.load(path, weights_only=True, map_location="cpu").get("lbhash_settings", {})
    except Exception as error:  # a damaged file makes PyTorch raise almost anything
        line = " ".join(str(error).split())[:100]
        raise ValueError(
            f"the checkpoint in {str(folder)!r} is damaged or none of lbhash ({line}); start anew without resume"
        ) from None
    for key in identity:
        if held.get(key) != identity[key]:
            raise ValueError(
                f"{key} is {identity[key]!r}, and the checkpoint in {str(folder)!r} was made with {held.get(key)!r}; "
                "resume with the same settings"
            )
    return path


def _trainer(accelerator: str, **settings: Any) -> L.Trainer:
    try:
        return L.Trainer(accelerator=accelerator, **settings)
    except (MisconfigurationException, ValueError) as error:
        raise ValueError(f"device is {accelerator!r}, which cannot be used here: {error}") from None


def _logger(kind: str | None, folder: Path | None, checkpoint: Path | None) -> Logger | None:
    if kind is None or folder is None:
        return None
    if kind == "csv":
        return _csv_logger(folder, checkpoint)
    if kind == "tensorboard":
        try:
            return TensorBoardLogger(folder, name="logs", version="")
        except ModuleNotFoundError:
            raise ValueError("logger is 'tensorboard', which is not installed: pip install tensorboard") from None
    raise ValueError(f"logger is {kind!r}; it must be csv or tensorboard")


def _csv_logger(folder: Path, checkpoint: Path | None) -> CSVLogger:
    """A log that is on disk after every epoch; that of a resumed run keeps the epochs before the checkpoint."""
    logger = CSVLogger(folder, name="logs", version="", flush_logs_every_n_steps=1)
    log = folder / "logs" / "metrics.csv"
    kept: list[dict[str, Any]] = []
    if checkpoint is not None and log.is_file():
        epochs = torch.load(checkpoint, weights_only=True, map_location="cpu")["epoch"] + 1
        with log.open(newline="", encoding="utf-8") as lines:
            kept = [row for row in csv.DictReader(lines) if int(row["epoch"]) < epochs]
    logger.experiment.metrics.extend(kept)  # the writer begins a file of its own and deletes the one that it finds
    return logger


@contextmanager
def cpu_settings(threads: int) -> Iterator[None]:
    """So many threads; and no denormal numbers, which Adam's moments of a converged surrogate turn into.

    A step on denormals takes many times as long.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)


@contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Without Lightning's remarks on hardware, workers and tips."""
    log = logging.getLogger("lightning.pytorch")
    level = log.level
    log.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        warnings.filterwarnings("ignore", message=".*isn't writable.*|.*does not have many workers.*")
        try:
            yield
        finally:
            log.setLevel(level)
