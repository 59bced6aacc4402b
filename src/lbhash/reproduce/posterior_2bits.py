"""The paper's demonstration that bits are correlated: two bits of CSQ on two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped]
from matplotlib.figure import Figure

from lbhash.data import Dataset
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import Hasher, fit_split
from lbhash.reproduce.distributions import Joint, divergence, independent_bits, marginals
from lbhash.reproduce.results import Record, Result, panels
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.surrogate_fit import fit_surrogate, mean_of_blocks
from lbhash.reproduce.texts import text
from lbhash.training.schedule import Schedule
from lbhash.training.settings import grouped
from lbhash.utils.plotting import new_figure

Outputs = npt.NDArray[np.float32]
OUTCOMES = ("− −", "+ −", "− +", "+ +")
PAPER = (0.079, 0.446, 0.394, 0.081)


def run(settings: Settings, epochs: int = 30, steps: int = 3_000) -> Result:
    """Return the table of marginals and joint probabilities, and the scatter plot of ℓ."""
    dataset = settings.single_label("posterior-2bits")[0].dataset()
    classes = nearest_classes(dataset.train)
    train, held_out = two_classes(dataset.train, classes), held_out_rows(dataset, classes)
    options: Any = {"epochs": epochs, "seed": settings.seed, "recipe": "paper", "centers": "best", "device": "cpu"}
    hasher = fit_split(Hasher(**grouped(bits=2, method="csq", pull="none", **options)), train, 2)
    trained = outputs_of(hasher, train)
    outputs = np.concatenate([outputs_of(hasher, split) for split in held_out])
    labels = np.concatenate([split.labels for split in held_out if split.labels is not None])
    positive = outputs >= 0  # zero is positive
    truth = np.bincount(positive @ [1, 2], minlength=4) / len(positive)
    surrogate = surrogate_joint(trained, outputs, settings.seed, steps)
    joints = {"frequencies": truth, "marginals' product": independent_bits(truth), "surrogate": surrogate}
    joints["paper"] = np.array(PAPER)
    centers = ["(" + ", ".join(f"{bit:+d}" for bit in center) + ")" for center in hasher.centers_]
    known = {"epochs": epochs, "seed": settings.seed, "name": dataset.name, "classes": classes, "steps": steps}
    about = text("posterior-2bits", centers=centers, train=len(train), held_out=len(outputs), **known)
    title = f"Two bits of CSQ on two classes of {dataset.name}"
    figure = outputs_figure(outputs, labels, classes, joints)
    return Result.of(title, table(joints), about, figure, digits=4)


def nearest_classes(split: EmbeddingSplit) -> tuple[int, int]:
    """Return the two classes whose means are nearest, each feature in units of its standard deviation in the split."""
    assert split.labels is not None
    rows = split.take(slice(None))
    numbers = np.unique(split.labels)
    if len(numbers) < 2:
        raise ValueError(f"data has {len(numbers)} class in its train split; it must have at least two")
    deviation = rows.std(axis=0)
    means = np.stack([rows[split.labels == number].mean(axis=0) for number in numbers])
    means /= np.where(deviation > 0, deviation, 1)
    apart = np.square(means[:, None] - means[None]).sum(axis=-1)
    np.fill_diagonal(apart, np.inf)
    first, second = np.unravel_index(np.argmin(apart), apart.shape)
    return int(numbers[first]), int(numbers[second])


def two_classes(split: EmbeddingSplit, classes: tuple[int, int], without: npt.ArrayLike = ()) -> EmbeddingSplit:
    """Return the rows of two classes with the labels 0 and 1, without some rows of the table."""
    assert split.labels is not None
    chosen = np.isin(split.labels, classes) & ~np.isin(split.rows, without)
    return EmbeddingSplit(split.embeddings, split.rows[chosen], (split.labels[chosen] == classes[1]).astype(np.int64))


def held_out_rows(dataset: Dataset, classes: tuple[int, int]) -> list[EmbeddingSplit]:
    """Return the query rows, and the base rows that are known not to be in the train split."""
    splits = [split for split in (dataset.base, dataset.query) if split.embeddings is dataset.train.embeddings]
    unseen = [two_classes(split, classes, dataset.train.rows) for split in splits]
    return [split for split in unseen or [two_classes(dataset.query, classes)] if len(split)]


def outputs_of(hasher: Hasher, split: EmbeddingSplit) -> Outputs:
    """Return ℓ of a split, ``float32 [n, 2]``."""
    return np.concatenate([hasher.model_.outputs(chunk) for chunk in split.chunks()])


def surrogate_joint(trained: Outputs, outputs: Outputs, seed: int, steps: int) -> Joint:
    """Return P of the surrogate, fitted to ``trained`` in at least ``steps`` steps, averaged over ``outputs``."""
    import torch

    batches = -(-len(trained) // Schedule.batch_size)
    every = -(-steps // (3 * batches))
    surrogate = fit_surrogate(torch.from_numpy(trained), seed, Schedule(epochs=3 * every, decay_every=every))
    return mean_of_blocks(surrogate, torch.from_numpy(outputs))[0]


def table(joints: dict[str, Joint]) -> list[Record]:
    """Return the marginals and joint probabilities of each distribution, and the KL of two estimates."""
    values: dict[str, list[float | None]] = {}
    for bit in range(2):
        ones = [float(marginals(joint)[bit]) for joint in joints.values()]
        values |= {f"bit {bit + 1} is −": [1 - one for one in ones], f"bit {bit + 1} is +": [*ones]}
    for outcome, name in enumerate(OUTCOMES):
        values[f"code {name}"] = [float(joint[outcome]) for joint in joints.values()]
    truth, product, surrogate, paper = joints.values()
    of_paper = divergence(paper, independent_bits(paper))
    values["KL of the marginals' product"] = [None, divergence(truth, product), None, of_paper]
    values["KL of the surrogate"] = [None, None, divergence(truth, surrogate), None]
    return [{"quantity": name, **dict(zip(joints, row, strict=True))} for name, row in values.items()]


def outputs_figure(outputs: Outputs, labels: npt.NDArray, classes: tuple[int, int], joints: dict[str, Joint]) -> Figure:
    """Draw ℓ of the held-out rows, and the joint probabilities."""
    figure, (left, right) = new_figure(12, 5, 1, 1)
    x, y = "ℓ, first bit", "ℓ, second bit"
    names = [f"class {classes[label]}" for label in labels]
    dots = pd.DataFrame({"class": names, x: outputs[:, 0], y: outputs[:, 1]}).sort_values("class")
    panels.draw_dots(left, dots, x, y, "class")
    for line in (left.axhline, left.axvline):
        line(0, color="0.3", linewidth=1)
    left.set(xlabel=x, ylabel=y, title="Raw outputs of held-out rows")
    bits = [
        {"code": f"({code})", "estimate": name, "probability": float(joint[outcome])}
        for outcome, code in enumerate(OUTCOMES)
        for name, joint in joints.items()
    ]
    panels.draw_points(right, bits, "probability", "code", "estimate")
    right.set(xlabel="joint probability", title="Joint probabilities of the two bits", xlim=(0, None))
    for axes in (left, right):
        axes.legend()
    return figure
