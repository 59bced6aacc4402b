"""The settings of a training, each defined once: its default, its range and one line of help.

They are the arguments of ``Hasher`` and ``train``, and the options of ``lbhash train``; a model's configuration stores
them. Nothing heavy is imported here, so ``lbhash train --help`` is fast. ``defaults.py`` replaces settings that are
None.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from lbhash.utils.formatting import shown
from lbhash.utils.names import refusing_others
from lbhash.utils.validation import check_choice, check_float, check_int

ScheduleName = Literal["step", "cosine", "linear", "constant"]
Precision = Literal["32", "bf16", "16"]
Monitor = Literal["ratio", "map", "loss"]
Recipe = Literal["tuned", "paper"]
BatchNorm = Literal["freeze", "train"]
Head = Literal["bits", "joined"]
Pull = Literal["surrogate", "bits", "none"]


def _setting(default: Any, text: str, check: Callable[..., Any] | None = None, **more: bool) -> Any:
    """Return a field with its default, help, check and marks.

    ``images`` marks settings of a fine-tuned backbone, ``stored=False`` settings that a model's metadata omit, and
    ``python`` settings without a command-line option.
    """
    return field(default=default, metadata={"help": text, "check": check, **more})


_RECIPES = "without it, the recipe's"


def _whole(default: int | None, text: str, least: int, **more: bool) -> Any:
    return _setting(default, text, partial(check_int, least=least), **more)


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
"""The suffix of a method's name for each pull: csq with the paper's guidance is ``csq_d``."""

METHOD, LABEL_FREE = "csq", "sne"
"""The default methods with and without labels. Without labels, several are compared if there are enough rows."""


@dataclass(kw_only=True, eq=False, repr=False)
class Main:
    """The settings that are direct arguments of ``Hasher``."""

    bits: int = field(
        default=64,
        kw_only=False,
        metadata={"help": "Length of a code, from 1 to 1,024.", "check": _check_bits, "stored": False},
    )
    method: Any = _setting(
        None,
        "A method that 'lbhash methods' lists (dch_d is dch with the pull 'surrogate'), or your own, MODULE:CLASS. By "
        "default csq; without labels, the best of signs, lsh, itq and sne on held-out rows.",
    )
    epochs: int = _whole(30, "Passes over the training rows.", 1)
    seed: int = _whole(0, "The same seed on the same machine gives the same codes, bit for bit.", 0)
    recipe: Recipe | None = _choice(
        None,
        "Settings that you leave out: 'paper', or 'tuned', found for the method on held-out rows ('lbhash methods' "
        "prints them). By default 'tuned' for embeddings if the method has tuned settings, else 'paper'.",
        Recipe,
    )
    head: Head | None = _choice(
        None,
        "'bits': the signs of a network's outputs. 'joined': adds a linear model's class posterior, if that finds "
        "held-out rows better; the default, unless method, unseen, backbone or the recipe 'paper' is given.",
        Head,
    )
    pull: Pull | None = _choice(
        None,
        "A second loss, which pulls codes to the class centers: 'surrogate' (the paper's guidance), 'bits' (a "
        "cross-entropy of each bit) or 'none'. The default is 'none' for embeddings and a method with centers, such "
        "as csq; else, and with the recipe 'paper', 'surrogate'.",
        Pull,
    )
    unseen: float = _number(
        0.0,
        "For classes that come later: the share of the embeddings' neighborhoods in the codes, from 0 to 1.",
        least=0,
        most=1,
    )
    centers: str = _setting(
        "arranged",
        "'arranged', with often confused classes next to each other, or a kind that 'lbhash centers' lists.",
        _check_centers,
    )
    options: dict[str, Any] | None = _setting(
        None,
        "Options of the method, such as {'alpha': 0.1}.",
        python=True,
    )
    guidance: dict[str, Any] | None = _setting(
        None,
        "Options of the pull, such as {'mode': 'replace'}.",
        python=True,
    )
    backbone: str | Path | None = _setting(
        None, "For images: a folder or Hub id of a vision model of transformers, which is fine-tuned.", stored=False
    )
    encoder: str | Path | None = _setting(
        None,
        "For texts: a folder or Hub id of a model of sentence-transformers, which is not trained.",
        stored=False,
    )
    device: str = _setting("auto", "Where to train: auto, cpu, gpu, cuda or mps.", stored=False)
    progress: bool = _setting(False, "Show a progress bar.", stored=False, python=True)


@dataclass(kw_only=True, repr=False)
class TrainingArguments:
    """The settings of a training that most users do not change: ``Hasher(training=TrainingArguments(lr=0.01))``.

    A grid search calls them ``training__lr``. They are checked when a ``Hasher`` is fitted.

    Args:
        ARGUMENTS

    >>> TrainingArguments(lr=0.01, batch_size=256)
    TrainingArguments(batch_size=256, lr=0.01)
    """

    hidden: int = _whole(1024, "Width of the head's hidden layer; 0 for a linear head.", 0, stored=False)
    dropout: float | None = _number(
        None,
        f"Probability that an input of the head is dropped in training; {_RECIPES}.",
        least=0,
        below=1,
        stored=False,
    )
    batch_size: int | None = _whole(None, f"Rows in a step; under torchrun, rows of each process; {_RECIPES}.", 2)
    lr: float | None = _number(None, f"Adam's learning rate; {_RECIPES}.", above=0)
    schedule: ScheduleName | None = _choice(
        None,
        f"How the learning rate falls; 'step', the paper's, goes to a tenth every 10 epochs; {_RECIPES}.",
        ScheduleName,
    )
    backbone_lr: float | None = _number(
        None, "Learning rate of a fine-tuned backbone; without it, a tenth of lr.", above=0, images=True
    )
    precision: Precision = _choice(
        "32",
        "Numbers that the model computes with in training: 32, bf16 or, on a GPU, 16 (mixed precision).",
        Precision,
    )
    monitor: Monitor | None = _choice(
        None,
        "Keep the weights of the best epoch, by the validation rows' ratio or mAP, or by the training loss; without "
        "it, of the last epoch.",
        Monitor,
    )
    patience: int | None = _whole(
        None, "End the training after this many epochs without a better one; the default monitor is then the ratio.", 1
    )
    validation: float | None = _number(
        None,
        "Share of each class's training rows to hold out; without it, 0.1 if the monitor needs it, else 0.",
        least=0,
        below=1,
        python=True,
    )
    start: str | Path | None = _setting(
        None,
        "A trained model whose weights this training starts from, for instance with another method. Only for "
        "embeddings.",
        stored=False,
    )
    image_size: int | None = _whole(
        None,
        "Side of the square images that the backbone sees; without it, that of its preprocessing.",
        1,
        images=True,
    )
    augment: Any = _setting(
        True, "Crop, flip and recolor the training images at random; in Python also an Augmentation.", images=True
    )
    batch_norm: BatchNorm = _choice(
        "freeze",
        "Batch normalization of the backbone: keep its statistics, or learn them from large batches.",
        BatchNorm,
        images=True,
        python=True,
    )
    threads: int = _whole(1, "Threads of PyTorch while it trains on a CPU.", 1, stored=False, python=True)
    workers: int = _whole(0, "Processes that read and prepare the training rows ahead.", 0, stored=False)

    def __repr__(self) -> str:
        return f"TrainingArguments({', '.join(given(self, fields(TrainingArguments)))})"


@dataclass(kw_only=True, repr=False)
class HasherArguments(Main):
    """The arguments of ``Hasher``."""

    training: TrainingArguments | None = _setting(
        None, "Settings that most people leave as they are: TrainingArguments(lr=0.01)."
    )


@dataclass(kw_only=True, eq=False, repr=False)
class Settings(TrainingArguments, Main):
    """All settings of a training in one object; ``checked`` raises a one-line error for a wrong value."""

    def checked(self) -> Settings:
        """Return the checked settings, with numbers as Python's own types.

        Raises:
            TypeError: a value is of the wrong type.
            ValueError: a value is out of its range.
        """
        values = {}
        for one in arguments():
            value, check = getattr(self, one.name), one.metadata["check"]
            optional = value is None and one.default is None
            values[one.name] = value if check is None or optional else check(value, one.name)
        made = Settings(**values)
        if made.patience is not None and made.monitor is None:
            made.monitor = "ratio"
        return made


def arguments(**marks: bool) -> list[Field[Any]]:
    """Return all fields of ``Settings``, or those with the given marks (such as ``images=False``)."""
    return [
        one
        for one in fields(Settings)
        if all(one.metadata.get(mark, mark == "stored") is wanted for mark, wanted in marks.items())
    ]


OF_TRAINING = tuple(one.name for one in fields(TrainingArguments))


def grouped(**settings: Any) -> dict[str, Any]:
    """Group plain settings as arguments of ``Hasher``, some of them inside ``training``.

    >>> grouped(bits=16, lr=0.01)
    {'bits': 16, 'training': TrainingArguments(lr=0.01)}
    """
    inner = {name: settings.pop(name) for name in OF_TRAINING if name in settings}
    return settings | ({"training": TrainingArguments(**inner)} if inner else {})


def side_by_side(hasher: HasherArguments) -> Settings:
    """Return all settings of a hasher in one object."""
    training = TrainingArguments() if hasher.training is None else hasher.training
    if not isinstance(training, TrainingArguments):
        raise TypeError(f"training is {shown(training)}; it must be TrainingArguments, such as {_SUCH}")
    own = {one.name: getattr(hasher, one.name) for one in fields(Main)}
    return Settings(**own, **vars(training))


def param_name(setting: str) -> str:
    """Return the name of a setting for ``Hasher.set_params``: ``training__lr`` for ``lr``."""
    return f"training__{setting}" if setting in OF_TRAINING else setting


def given(one: Any, settings: Sequence[Field[Any]]) -> list[str]:
    """Return the settings that differ from their defaults, each as ``name=value``."""
    values = ((each, getattr(one, each.name)) for each in settings)
    return [
        f"{each.name}={value!r}"
        for each, value in values
        if value is not each.default and repr(value) != repr(each.default)
    ]


def described(settings: Sequence[Field[Any]], indent: str = " " * 8) -> str:
    """Return settings in docstring form, each with its name and help."""
    lines = (f"{one.name}: {one.metadata['help']}" for one in settings)
    return "\n".join(
        textwrap.fill(line, 120, initial_indent=indent, subsequent_indent=indent + " " * 4) for line in lines
    )


_SUCH = "TrainingArguments(lr=0.01)"
_WORDS = {
    "learning_rate": "lr",
    "per_device_train_batch_size": "batch_size",
    "lr_scheduler_type": "schedule",
    "fp16": "precision",
    "bf16": "precision",
    "n_jobs": "threads",
    "num_workers": "workers",
    "dataloader_num_workers": "workers",
    "early_stopping_patience": "patience",
    "validation_fraction": "validation",
    **dict.fromkeys(("num_train_epochs", "n_epochs"), "Hasher(epochs=…)"),
    **{one.name: f"Hasher({one.name}=…)" for one in fields(Main)},
}
"""Names of settings in other libraries, and ours."""

TrainingArguments.__init__ = refusing_others(  # type: ignore[method-assign]
    TrainingArguments.__init__, "TrainingArguments", _WORDS
)
if TrainingArguments.__doc__:  # None under python -OO
    TrainingArguments.__doc__ = TrainingArguments.__doc__.replace(
        " " * 8 + "ARGUMENTS", described(fields(TrainingArguments))
    )
