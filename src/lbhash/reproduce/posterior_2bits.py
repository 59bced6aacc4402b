"""The paper's demonstration that bits are correlated: two bits of CSQ on two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from lbhash.data import Dataset, EmbeddingSplit, load_dataset
from lbhash.hasher import Hasher
from lbhash.reproduce.distributions import Joint, divergence, frequencies, independent_bits, marginals
from lbhash.reproduce.results import Record, Result
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.surrogate_fit import fit_surrogate, mean_of_blocks
from lbhash.reproduce.texts import text
from lbhash.training.schedule import Schedule
from lbhash.utils.plotting import new_figure, palette

Outputs = npt.NDArray[np.float32]
OUTCOMES = ("− −", "+ −", "− +", "+ +")
PAPER = (0.079, 0.446, 0.394, 0.081)
FREQUENCIES, PRODUCT, SURROGATE = "frequencies", "marginals' product", "surrogate"


def run(settings: Settings, epochs: int = 30, steps: int = 3_000) -> Result:
    """Return the table of marginals and joint probabilities, and the scatter plot of ℓ."""
    data = "digits" if settings.data is None else settings.data
    dataset = load_dataset(data)
    if dataset.multi_label:
        raise ValueError(f"data is {data!r}, whose rows have several labels; it must have one a row")
    classes = nearest_classes(dataset.train)
    train, held_out = two_classes(dataset.train, classes), held_out_rows(dataset, classes)
    hasher = Hasher(2, "csq", guided=False, epochs=epochs, seed=settings.seed, centers="best", device="cpu")
    hasher.fit_split(train, 2)
    trained = outputs_of(hasher, train)
    outputs = np.concatenate([outputs_of(hasher, split) for split in held_out])
    labels = np.concatenate([split.labels for split in held_out if split.labels is not None])
    positive = outputs >= 0  # zero is positive
    truth = frequencies(np.bincount(positive[:, 0] + 2 * positive[:, 1], minlength=4))
    joints = {
        FREQUENCIES: truth,
        PRODUCT: independent_bits(truth),
        SURROGATE: surrogate_joint(trained, outputs, settings.seed, steps),
        "paper": np.array(PAPER),
    }
    about = text(
        "posterior-2bits",
        epochs=epochs,
        seed=settings.seed,
        name=dataset.name,
        classes=classes,
        centers=["(" + ", ".join(f"{bit:+d}" for bit in center) + ")" for center in hasher.centers_],
        train=len(train),
        held_out=len(outputs),
        steps=steps,
    )
    return Result.of(
        f"Two bits of CSQ on two classes of {dataset.name}",
        table(joints),
        about,
        lambda: outputs_figure(outputs, labels, classes, joints),
        digits=4,
        paper={"paper": None},  # of other data, whose two classes have other centers
    )


def nearest_classes(split: EmbeddingSplit) -> tuple[int, int]:
    """Return the two classes whose means are nearest, each feature in units of its standard deviation in the split."""
    assert split.labels is not None
    rows = split.take(slice(None))
    numbers = np.unique(split.labels)
    if len(numbers) < 2:
        raise ValueError(f"data has {len(numbers)} class in its train split; it must have two at least")
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
    """Return the rows of the queries, and those of the base that are known not to be in the train split."""
    splits = [split for split in (dataset.base, dataset.query) if split.embeddings is dataset.train.embeddings]
    unseen = [two_classes(split, classes, dataset.train.rows) for split in splits]
    return [split for split in unseen or [two_classes(dataset.query, classes)] if len(split)]


def outputs_of(hasher: Hasher, split: EmbeddingSplit) -> Outputs:
    """Return ℓ of a split, ``float32 [n, 2]``."""
    return np.concatenate([hasher.model_.outputs(chunk) for chunk in split.chunks()])


def surrogate_joint(trained: Outputs, outputs: Outputs, seed: int, steps: int) -> Joint:
    """Return P of the surrogate, fitted to ``trained`` in so many steps at least, averaged over ``outputs``."""
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
        values[f"bit {bit + 1} is −"] = [1 - one for one in ones]
        values[f"bit {bit + 1} is +"] = [*ones]
    for outcome, name in enumerate(OUTCOMES):
        values[f"code {name}"] = [float(joint[outcome]) for joint in joints.values()]
    truth, product, surrogate, paper = joints.values()
    of_paper = divergence(paper, independent_bits(paper))
    values["KL of the marginals' product"] = [None, divergence(truth, product), None, of_paper]
    values["KL of the surrogate"] = [None, None, divergence(truth, surrogate), None]
    return [{"quantity": name, **dict(zip(joints, row, strict=True))} for name, row in values.items()]


def outputs_figure(outputs: Outputs, labels: npt.NDArray, classes: tuple[int, int], joints: dict[str, Joint]) -> Figure:
    """Draw ℓ of the held-out rows, and the joint probabilities as bars."""
    figure, (left, right) = new_figure(12, 5, 1, 1)
    colors = palette(4)
    for place, number in enumerate(classes):
        own = outputs[labels == place]
        size = float(np.clip(3000 / len(outputs), 3, 20))
        left.scatter(own[:, 0], own[:, 1], s=size, color=colors[place], alpha=0.6, label=f"class {number}", linewidth=0)
    left.axhline(0, color="0.3", linewidth=1)
    left.axvline(0, color="0.3", linewidth=1)
    limit = 1.1 * float(np.abs(outputs).max())
    left.set(xlim=(-limit, limit), ylim=(-limit, limit))
    for outcome, name in enumerate(OUTCOMES):
        right_half, upper_half = bool(outcome & 1), bool(outcome & 2)
        style: dict[str, Any] = {"ha": "left" if right_half else "right", "va": "top" if upper_half else "bottom"}
        x, y = 0.515 if right_half else 0.485, 0.98 if upper_half else 0.02
        left.text(x, y, f"{name}: {joints[FREQUENCIES][outcome]:.3f}", transform=left.transAxes, **style)
    left.set(xlabel="ℓ, first bit", ylabel="ℓ, second bit", title="Raw outputs of held-out rows")
    left.legend(loc="center left")
    shades = ["0.6", colors[0], colors[1], "black"]
    for shift, ((name, joint), color) in enumerate(zip(joints.items(), shades, strict=True)):
        label = "paper, CIFAR-10" if name == "paper" else name
        right.bar(np.arange(4) + 0.2 * (shift - 1.5), joint, 0.19, label=label, color=color)
    right.set(xticks=range(4), ylabel="joint probability", xlabel="code", title="Joint probabilities of the two bits")
    right.set_xticklabels(OUTCOMES)
    right.grid(visible=False, axis="x")
    right.set_ylim(0, 1.35 * max(joint.max() for joint in joints.values()))  # room for the legend
    right.legend(ncols=2, loc="upper center")
    return figure
