"""The settings of a training, each written down once: its default, its range and one line of help.

``Hasher`` is constructed from these, ``train`` takes them, ``lbhash train`` has an option for each, and a model's
configuration stores them. Nothing heavy is imported here, so that ``lbhash train --help`` is quick. ``defaults.py``
says what is taken where a setting is None.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import KW_ONLY, Field, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from lbhash.utils.validation import check_choice, check_float, check_int

if TYPE_CHECKING:
    from lbhash.training.images import Augmentation

ScheduleName = Literal["step", "cosine", "linear", "constant"]
Precision = Literal["32", "bf16", "16"]
Monitor = Literal["ratio", "map", "loss"]
Recipe = Literal["tuned", "paper"]
BatchNorm = Literal["freeze", "train"]
Head = Literal["bits", "joined"]
Pull = Literal["surrogate", "bits", "none"]


def _setting(default: Any, text: str, check: Callable[..., Any] | None = None, **more: bool) -> Any:
    """A field: its default, its help, its check, and what else is known of it.

    ``images`` marks what only a backbone that is fine-tuned has, ``stored=False`` what the model's metadata need not
    say, and ``python`` what the command line has no option for.
    """
    return field(default=default, metadata={"help": text, "check": check, **more})


_RECIPES = "without it, the recipe's"


def _whole(default: int | None, text: str, least: int, **more: bool) -> Any:
    def check(value: Any, name: str) -> int:
        if check_int(value, name, least) >= 2**63:
            raise ValueError(f"{name} is {value}; it must be at least {least} and below 2^63")
        return int(value)

    return _setting(default, text, check, **more)


def _number(
    default: float | None, text: str, *, images: bool = False, stored: bool = True, python: bool = False, **limits: Any
) -> Any:
    return _setting(default, text, partial(check_float, **limits), images=images, stored=stored, python=python)


def _choice(default: str | None, text: str, kind: Any, **more: bool) -> Any:
    def check(value: Any, name: str) -> str:
        return check_choice(str(value) if isinstance(value, int) else value, name, get_args(kind))  # 32 as "32"

    return _setting(default, text, check, **more)


def _check_bits(value: Any, name: str) -> int:
    from lbhash.codes import check_bits  # NumPy comes with it

    return check_bits(value, name)


def _check_centers(value: Any, name: str) -> str:
    from lbhash.centers.targets import check_center_kind  # NumPy comes with it

    return check_center_kind(value.lower() if isinstance(value, str) else value)


PULL_MARKS: dict[str | None, str] = {"surrogate": "_d", "bits": "+bits"}
"""What a pull adds to the name of a method: csq is ``csq_d`` with the paper's guidance."""

METHOD, LABEL_FREE = "csq", "sne"
"""The methods of rows with and without labels, where none is named. Of many rows without, several are compared."""


@dataclass(eq=False, repr=False)
class TrainingArguments:
    """All settings of a training; ``checked`` raises an error with one line if a value is wrong."""

    bits: int = _setting(64, "Length of a code, from 1 to 1,024.", _check_bits, stored=False)
    method: Any = _setting(
        None,
        "A method that 'lbhash methods' lists, such as dch; dch_d is dch with the pull 'surrogate'. Or MODULE:CLASS, "
        "an Objective of your own, installed or in the current folder; in Python also its class. By default csq; for "
        "rows without labels, the one of signs, lsh, itq and sne with the best recall@10 on held-out rows.",
    )
    epochs: int = _whole(30, "Passes over the training rows.", 1)
    seed: int = _whole(0, "The same seed on the same machine gives the same codes, bit for bit.", 0)
    _: KW_ONLY
    hidden: int = _whole(1024, "Width of the head's hidden layer; 0 for a linear head.", 0, stored=False)
    recipe: Recipe | None = _choice(
        None,
        "Settings that you do not give: 'tuned', the method's own, which were searched for on held-out rows ('lbhash "
        "methods' prints them), or 'paper'. By default 'tuned' for embeddings if the method has its own, else 'paper'.",
        Recipe,
    )
    dropout: float | None = _number(
        None,
        f"Probability that an input of the head is dropped in training; {_RECIPES}.",
        least=0,
        below=1,
        stored=False,
    )
    head: Head | None = _choice(
        None,
        "'bits': a code is the signs of the network's outputs. 'joined': a linear model's class posterior times the "
        "class centers is added to the outputs, if held-out rows are found better so. By default 'joined'; but 'bits' "
        "if you name a method, for images, with the recipe 'paper' and with unseen.",
        Head,
    )
    unseen: float = _number(
        0.0,
        "For classes that come later: how much the codes keep of the embeddings' own neighborhoods, from 0 (nothing) "
        "to 1 (nothing else). Only for embeddings.",
        least=0,
        most=1,
    )
    pull: Pull | None = _choice(
        None,
        "A loss that pulls codes onto the class centers, beside the method's own: 'surrogate' (the paper's guidance), "
        "'bits' (a cross-entropy of each bit) or 'none'. By default 'none' for methods that have centers, such as csq; "
        "'surrogate' for other methods, for images and with the recipe 'paper'.",
        Pull,
    )
    start: str | Path | None = _setting(
        None,
        "A trained model whose weights this training starts from, for instance with another method. Only for "
        "embeddings.",
        stored=False,
    )
    centers: str = _setting(
        "arranged",
        "Class centers: 'arranged', which puts frequently confused classes next to each other, or a kind that "
        "'lbhash centers' lists.",
        _check_centers,
    )
    batch_size: int | None = _whole(None, f"Rows in a step; under torchrun, rows of each process; {_RECIPES}.", 2)
    lr: float | None = _number(None, f"Adam's learning rate; {_RECIPES}.", above=0)
    schedule: ScheduleName | None = _choice(
        None,
        f"How the learning rate falls; 'step', the paper's, goes to a tenth every 10 epochs; {_RECIPES}.",
        ScheduleName,
    )
    backbone_lr: float | None = _number(
        None, "Learning rate of a backbone that is fine-tuned; without it, a tenth of lr.", above=0, images=True
    )
    precision: Precision = _choice(
        "32",
        "Numbers that the model computes with in training: 32, bf16 or, on a GPU, 16 (mixed precision).",
        Precision,
    )
    monitor: Monitor | None = _choice(
        None,
        "Keep the weights of the epoch that is best by the validation rows' ratio or mAP, or by the training loss; "
        "without it, those of the last epoch.",
        Monitor,
    )
    patience: int | None = _whole(
        None, "End the training after this many epochs without a better one; the default monitor is then the ratio.", 1
    )
    validation: float | None = _number(
        None,
        "Share of each class's training rows that is not trained on; without it, 0.1 if the monitor needs it, else 0.",
        least=0,
        below=1,
        python=True,
    )
    options: dict[str, Any] | None = _setting(
        None,
        "Options of the method, such as {'alpha': 0.1}; what JSON can hold, since the model stores it.",
        python=True,
    )
    guidance: dict[str, Any] | None = _setting(
        None,
        "Options of the pull, such as {'mode': 'replace'}; what JSON can hold, too.",
        python=True,
    )
    backbone: str | Path | None = _setting(
        None, "For images: a folder or Hub id of a vision model of transformers, which is fine-tuned.", stored=False
    )
    encoder: str | Path | None = _setting(
        None,
        "For texts: a folder or Hub id of a model of sentence-transformers, which embeds them and is not trained.",
        stored=False,
    )
    image_size: int | None = _whole(
        None,
        "Side of the square images that the backbone sees; without it, as its preprocessing has it.",
        1,
        images=True,
    )
    augment: bool | Augmentation = _setting(
        True, "Crop, flip and recolor the training images at random; in Python also an Augmentation.", images=True
    )
    batch_norm: BatchNorm = _choice(
        "freeze",
        "Batch normalization of the backbone: keep its own statistics, or learn them from large batches.",
        BatchNorm,
        images=True,
        python=True,
    )
    device: str = _setting("auto", "Where to train: auto, cpu, gpu, cuda or mps.", stored=False)
    threads: int = _whole(1, "Threads of PyTorch while it trains on a CPU.", 1, stored=False, python=True)
    workers: int = _whole(0, "Processes that read and prepare the training rows ahead.", 0, stored=False)
    progress: bool = _setting(False, "Show a progress bar.", stored=False, python=True)

    def checked(self) -> TrainingArguments:
        """Return the same arguments as Python's own numbers.

        Raises:
            TypeError: a value is of the wrong type.
            ValueError: a value is out of its range.
        """
        values = {}
        for one in arguments():
            value, check = getattr(self, one.name), one.metadata["check"]
            optional = value is None and one.default is None
            values[one.name] = value if check is None or optional else check(value, one.name)
        made = TrainingArguments(**values)
        if made.patience is not None and made.monitor is None:
            made.monitor = "ratio"
        return made


def arguments(**marks: bool) -> list[Field[Any]]:
    """Return the fields of ``TrainingArguments``, all of them or those with these marks (``images=False``)."""
    return [
        one
        for one in fields(TrainingArguments)
        if all(one.metadata.get(mark, mark == "stored") is wanted for mark, wanted in marks.items())
    ]


def described(indent: str = " " * 8) -> str:
    """Return the arguments as a docstring lists them, a name and its help each."""
    lines = (f"{one.name}: {one.metadata['help']}" for one in arguments())
    return "\n".join(
        textwrap.fill(line, 120, initial_indent=indent, subsequent_indent=indent + " " * 4) for line in lines
    )
