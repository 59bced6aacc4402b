"""The paper's demonstration that bits are correlated: two bits of CSQ on two classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.data import Dataset, EmbeddingSplit, load_dataset
from lbhash.hasher import Hasher
from lbhash.reproduce.distributions import Joint, divergence, frequencies, independent_bits, marginals
from lbhash.reproduce.results.result import Cell, Result
from lbhash.reproduce.runs.settings import Settings
from lbhash.reproduce.surrogate_fit import fit_surrogate, mean_of_blocks
from lbhash.training.schedule import Schedule
from lbhash.utils.plotting import new_figure, palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Outputs = npt.NDArray[np.float32]
OUTCOMES = ("− −", "+ −", "− +", "+ +")
PAPER = (0.079, 0.446, 0.394, 0.081)
STEPS = 3_000

TEXT = """CSQ (plain, 2 bits, {epochs} epochs, seed {seed}) learns two classes of {name}, {classes[0]} and {classes[1]}:
those whose training rows' standardized means are nearest to each other, for classes that are told apart without an
error have codes of two kinds only. Their centers are {centers[0]} and {centers[1]}. {train:,} rows train; the
frequencies are those of the codes of {held:,} rows that training has not seen, and the surrogate was fitted to the raw
outputs ℓ of the training rows ({steps:,} steps or more of batch 64, the learning rate × 0.1 after each third) and is
averaged over the ℓ of those held-out rows. Bits in the order of the code; the paper's column is
for two classes of CIFAR-10, its outcomes in the order of the library's index, in which they add up to its marginals.

KL is that of the held-out rows' frequencies to each estimate. This experiment has one seed, the first."""


def run(settings: Settings, epochs: int = 30, steps: int = STEPS) -> Result:
    """The table of marginals and joint probabilities, and the scatter of ℓ."""
    data = "digits" if settings.data is None else settings.data
    dataset = load_dataset(data)
    if dataset.multi_label:
        raise ValueError(f"data is {data!r}, whose rows have several labels; it must have one a row")
    classes = nearest_classes(dataset.train)
    train, held = two_classes(dataset.train, classes), held_out(dataset, classes)
    hasher = Hasher(2, "csq", guided=False, epochs=epochs, seed=settings.seed, centers="best", device="cpu")
    hasher.fit_split(train, 2)
    trained = outputs_of(hasher, train)
    outputs = np.concatenate([outputs_of(hasher, part) for part in held])
    labels = np.concatenate([part.labels for part in held if part.labels is not None])
    truth = frequencies(outcome_counts(outputs))
    said = surrogate_joint(trained, outputs, settings.seed, steps)
    naive = independent_bits(truth)
    rows = table(truth, naive, said)
    text = TEXT.format(
        epochs=epochs,
        seed=settings.seed,
        name=dataset.name,
        classes=classes,
        centers=["(" + ", ".join(f"{bit:+d}" for bit in center) + ")" for center in hasher.centers_],
        train=len(train),
        held=len(outputs),
        steps=steps,
    )
    return Result(
        f"Two bits of CSQ on two classes of {dataset.name}",
        ("quantity", "frequencies", "marginals' product", "surrogate", "paper"),
        rows,
        text,
        lambda: draw(outputs, labels, classes, truth, naive, said),
        paper={"paper": None},  # of other data, whose two classes have other centers
    )


def nearest_classes(part: EmbeddingSplit) -> tuple[int, int]:
    """The two classes whose means are nearest, each feature in units of its standard deviation over the split."""
    assert part.labels is not None
    rows = part.take(slice(None))
    numbers = np.unique(part.labels)
    if len(numbers) < 2:
        raise ValueError(f"data has {len(numbers)} class in its train split; it must have two at least")
    deviation = rows.std(axis=0)
    means = np.stack([rows[part.labels == number].mean(axis=0) for number in numbers])
    means /= np.where(deviation > 0, deviation, 1)
    apart = np.square(means[:, None] - means[None]).sum(axis=-1)
    np.fill_diagonal(apart, np.inf)
    first, second = np.unravel_index(np.argmin(apart), apart.shape)
    return int(numbers[first]), int(numbers[second])


def two_classes(
    part: EmbeddingSplit, classes: tuple[int, int], without: npt.NDArray[np.int64] | None = None
) -> EmbeddingSplit:
    """The rows of two classes as labels 0 and 1, without some rows of the table."""
    assert part.labels is not None
    keep = np.isin(part.labels, classes)
    if without is not None:
        keep &= ~np.isin(part.rows, without)
    return EmbeddingSplit(part.embeddings, part.rows[keep], (part.labels[keep] == classes[1]).astype(np.int64))


def held_out(dataset: Dataset, classes: tuple[int, int]) -> list[EmbeddingSplit]:
    """The queries' rows, and those of the base that are not in the train split (none where that cannot be told)."""
    seen = dataset.train.rows
    parts = [part for part in (dataset.base, dataset.query) if part.embeddings is dataset.train.embeddings]
    kept = [two_classes(part, classes, seen) for part in parts] or [two_classes(dataset.query, classes)]
    return [part for part in kept if len(part)]


def outputs_of(hasher: Hasher, part: EmbeddingSplit) -> Outputs:
    """ℓ of a split, ``float32 [n, 2]``."""
    return np.concatenate([hasher.model_.outputs(chunk) for chunk in part.chunks()])


def outcome_counts(outputs: Outputs) -> npt.NDArray[np.int64]:
    """How often each code was given, ``int64 [4]``; zero is positive."""
    ones = outputs >= 0
    return np.bincount(ones[:, 0] + 2 * ones[:, 1], minlength=4)


def surrogate_joint(trained: Outputs, outputs: Outputs, seed: int, steps: int) -> Joint:
    """The surrogate, fitted to ``trained``, averaged over ``outputs``."""
    import torch

    batches = -(-len(trained) // Schedule.batch_size)
    every = -(-steps // (3 * batches))
    schedule = Schedule(epochs=3 * every, decay_every=every)
    surrogate = fit_surrogate(torch.from_numpy(trained), seed, schedule)
    return mean_of_blocks(surrogate, torch.from_numpy(outputs))[0]


def table(truth: Joint, naive: Joint, said: Joint) -> list[list[Cell]]:
    """Marginals, joint probabilities, and KL of ``truth`` to the two estimates of it."""
    rows: list[list[Cell]] = []
    columns = [np.array(joint) for joint in (truth, naive, said, PAPER)]
    for bit in range(2):
        ones = [float(marginals(joint)[bit]) for joint in columns]
        rows.append([f"bit {bit + 1} is −", *(1 - one for one in ones)])
        rows.append([f"bit {bit + 1} is +", *ones])
    for outcome, name in enumerate(OUTCOMES):
        rows.append([f"code {name}", *(float(joint[outcome]) for joint in columns)])
    paper = np.array(PAPER)
    of_paper = divergence(paper, independent_bits(paper))
    rows.append(["KL of the marginals' product", None, divergence(truth, naive), None, of_paper])
    rows.append(["KL of the surrogate", None, None, divergence(truth, said), None])
    return rows


def draw(
    outputs: Outputs, labels: npt.NDArray, classes: tuple[int, int], truth: Joint, naive: Joint, said: Joint
) -> Figure:
    """ℓ of the held-out rows, and the joint probabilities as bars."""
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
        words: dict[str, Any] = {"ha": "left" if right_half else "right", "va": "top" if upper_half else "bottom"}
        x, y = 0.515 if right_half else 0.485, 0.98 if upper_half else 0.02
        left.text(x, y, f"{name}: {truth[outcome]:.3f}", transform=left.transAxes, **words)
    left.set(xlabel="ℓ, first bit", ylabel="ℓ, second bit", title="Raw outputs of rows held out")
    left.legend(loc="center left")
    bars = {"frequencies": truth, "marginals' product": naive, "surrogate": said, "paper, CIFAR-10": np.array(PAPER)}
    shades = ["0.6", colors[0], colors[1], "black"]
    for shift, ((name, joint), color) in enumerate(zip(bars.items(), shades, strict=True)):
        right.bar(np.arange(4) + 0.2 * (shift - 1.5), joint, 0.19, label=name, color=color)
    right.set(xticks=range(4), ylabel="joint probability", xlabel="code", title="Joint probabilities of the two bits")
    right.set_xticklabels(OUTCOMES)
    right.grid(visible=False, axis="x")
    right.set_ylim(0, 1.35 * max(joint.max() for joint in bars.values()))  # room for the legend
    right.legend(ncols=2, loc="upper center")
    return figure
