"""What a departure from a paper, or from its authors' code, changes: our form beside the other, on validation rows.

    python -m benchmarks.experiments.fidelity --data cifar10=FILE --data mosaic=FILE

Both forms train on the same 80 % of the training rows, with the paper's settings and the same seeds. The mAP is that of
the other 20 %, each row a query to all others of them; no row of a base or a query is read. Prints a table for
docs/fidelity.md, with the mean difference over the seeds and its standard deviation.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import pandas as pd
import torch
import torch.nn.functional as F
from benchmarks.experiments.shared import fitted, held_out, markdown, options, run, show
from torch import Tensor

from lbhash.hasher import Hasher
from lbhash.losses import Objective, Task
from lbhash.losses.classes import one_hot
from lbhash.losses.csq import CSQ
from lbhash.losses.dbdh import DBDH
from lbhash.losses.dch import DCH
from lbhash.losses.dsdh import DSDH
from lbhash.losses.greedyhash import GreedyHash
from lbhash.losses.hashnet import HashNet
from lbhash.losses.pairs import likelihood_loss, pair_mean, similar
from lbhash.losses.pulls import SurrogatePull
from lbhash.training.schedule import Schedule
from lbhash.trials.trial import Trial


class HalvesHashNet(HashNet):
    """Pairs the first half of a batch with the second, as the authors' code does."""

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch."""
        u, half = (self.beta * logits).tanh(), len(logits) // 2
        s = similar(labels[:half], labels[half:])
        values = likelihood_loss(self.alpha * u[:half] @ u[half:].T, s)
        weights = torch.where(s, s.numel() / s.sum().clamp(min=1), s.numel() / (~s).sum().clamp(min=1))
        if labels.ndim == 2:
            common = labels[:half].float() @ labels[half:].float().T
            either = labels[:half].sum(1)[:, None] + labels[half:].sum(1)[None, :] - common
            weights = torch.where(s, weights * common / either.clamp(min=1), weights)
        return (weights * values).mean()


class StepsHashNet(HashNet):
    """Sharpens the tanh with the steps, as the authors' code does: β² grows by 1 every 200 steps."""

    steps = 0

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch."""
        self.beta = (1 + self.steps // 200) ** 0.5
        self.steps += 1
        return super().forward(logits, labels, index)


class SetBalancedHashNet(HashNet):
    """Weighs similar and dissimilar pairs by their numbers in the training set, as the paper has it."""

    def __init__(self, task: Task, **options: Any) -> None:
        super().__init__(task, **options)
        pairs = len(task.labels) * (len(task.labels) - 1)
        self.share = float(similar(task.labels, task.labels).sum() - len(task.labels)) / pairs

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch."""
        u, s = (self.beta * logits).tanh(), similar(labels, labels)
        weights = torch.where(s, 1 / self.share, 1 / (1 - self.share))
        return pair_mean(weights * likelihood_loss(self.alpha * u @ u.T, s))


class ClippedDBDH(DBDH):
    """Clips without a gradient outside ±1."""

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch."""
        u = logits.clamp(-1, 1)
        return self.memory.pair_loss(u, labels, index) + self.alpha * u.mean(dim=0).abs().mean()


class RowBalancedDBDH(DBDH):
    """Balances the bits of a row, as DeepHash-pytorch does, in place of the rows of a bit."""

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch."""
        u = logits + (logits.clamp(-1, 1) - logits).detach()
        return self.memory.pair_loss(u, labels, index) + self.alpha * u.mean(dim=1).abs().mean()


class BatchesDSDH(DSDH):
    """Sets W and B before every batch."""

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch."""
        self.update_codes()
        return super().forward(logits, labels, index)


class NearDCH(DCH):
    """Lets a pair come a thousand times as near."""

    least_distance = 1e-6


class MeanGreedyHash(GreedyHash):
    """Averages the cross-entropy of several labels over the classes, so that the penalty outweighs it."""

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch."""
        if labels.ndim == 1:
            return super().forward(logits, labels, index)
        signs = torch.where(logits.detach() >= 0, 1.0, -1.0)
        scores = self.classifier(logits + (signs - logits).detach())
        loss = F.binary_cross_entropy_with_logits(scores, one_hot(labels, scores.shape[1]))
        return loss + self.alpha * (logits.abs() - 1).abs().pow(3).mean()


class LogCoshCSQ(CSQ):
    """Quantizes by log cosh, as the paper writes it; the authors' code squares."""

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch."""
        rest = logits.tanh().abs() - 1
        return super().forward(logits, labels, index) + self.lam * (rest.cosh().log() - rest.square()).mean()


class TwoMasksCSQ(Objective):
    """CSQ_D whose surrogate draws a dropout mask of its own for the pull."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.guided = SurrogatePull(CSQ(task), task, weight="balanced")

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch."""
        (fit, _), (_, pull) = (self.guided.guidance(logits, labels) for _ in range(2))
        return self.guided.host(logits, labels, index) + fit + self.guided.weight * pull


class TwoStepsCSQ(TwoMasksCSQ):
    """CSQ_D whose surrogate steps first, so that the model meets it as it is then (Algorithm 1)."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.adam = torch.optim.Adam(self.guided.surrogate.parameters())

    def begin_epoch(self, epoch: int) -> None:
        """Set the surrogate's learning rate to the model's."""
        self.adam.param_groups[0]["lr"] = Schedule().rate(epoch)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, which moves the model only."""
        self.guided.guidance(logits.detach(), labels)[0].backward()
        self.adam.step()
        self.adam.zero_grad()
        pull = self.guided.guidance(logits, labels)[1]
        return self.guided.host(logits, labels, index) + self.guided.weight * pull


PART = "fidelity"
BALANCED = {"pull": "surrogate", "guidance": {"weight": "balanced"}}
FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "HashNet: pairs of all rows, not of two halves of a batch": ({"method": "hashnet"}, {"method": HalvesHashNet}),
    "HashNet: β by epochs, not by steps": ({"method": "hashnet"}, {"method": StepsHashNet}),
    "HashNet: pairs balanced over a batch, not over all": ({"method": "hashnet"}, {"method": SetBalancedHashNet}),
    "DBDH: gradient straight through the clip, not a plain clip": ({"method": "dbdh"}, {"method": ClippedDBDH}),
    "DBDH: balance over the rows, not over a row's bits": ({"method": "dbdh"}, {"method": RowBalancedDBDH}),
    "DSDH: η = 1, not 55": ({"method": "dsdh"}, {"method": "dsdh", "options": {"eta": 55.0}}),
    "DSDH: codes pull the network, not η = 0": ({"method": "dsdh"}, {"method": "dsdh", "options": {"eta": 0.0}}),
    "DSDH: W and B set before every epoch, not every batch": ({"method": "dsdh"}, {"method": BatchesDSDH}),
    "DCH: pairs at least 1/1,000 of a bit apart, not 1/1,000,000": ({"method": "dch"}, {"method": NearDCH}),
    "GreedyHash: sum over labels, not mean": ({"method": "greedyhash"}, {"method": MeanGreedyHash}),
    "GreedyHash: α = 0.1, not 1": ({"method": "greedyhash"}, {"method": "greedyhash", "options": {"alpha": 1.0}}),
    "CSQ: squared quantization, not log cosh": ({"method": "csq"}, {"method": LogCoshCSQ}),
    "CSQ_D: one dropout mask for fit and pull, not two": ({"method": "csq", **BALANCED}, {"method": TwoMasksCSQ}),
    "CSQ_D: model and surrogate step together, not one after the other": (
        {"method": "csq", **BALANCED},
        {"method": TwoStepsCSQ},
    ),
    "CSQ_D: weight 0.003, not the paper's 1": ({"method": "csq", **BALANCED}, {"method": "csq", "pull": "surrogate"}),
}
"""Our form and the other, as arguments of ``Hasher``, by what they are."""


def trials(given: argparse.Namespace, chosen: list[str]) -> Iterator[tuple[dict[str, Any], Trial]]:
    """Yield a trial of each form and seed, which asks held-out training rows."""
    for source in given.data:
        train, question = held_out(source, source.top_k())
        for name, which, bits, seed in product(chosen, (0, 1), given.bits, range(given.seeds)):
            hasher = Hasher(bits, epochs=given.epochs, recipe="paper", device="cpu", seed=seed)
            hasher.set_params(**{"pull": "none", **FORMS[name][which]})
            columns = {"data": source.name, "ours, and what it is not": name, "form": ("ours", "the other")[which]}
            columns |= {"bits": bits, "epochs": given.epochs, "seed": seed}
            yield columns, Trial(partial(fitted, hasher=hasher), train, (question,))


def table(found: pd.DataFrame) -> pd.DataFrame:
    """Return the mean mAP of both forms, and the difference with its standard deviation."""
    columns = ["data", "ours, and what it is not"]
    maps = 100 * found.pivot_table("map", [*columns, "bits", "seed"], "form", sort=False)
    by = maps.assign(difference=maps["ours"] - maps["the other"]).groupby(columns, sort=False)
    means = by.mean()
    shown = means[["ours", "the other"]].map("{:.1f}".format)
    spread = by["difference"].std().map(" ± {:.1f}".format)
    return shown.assign(difference=means["difference"].map("{:+.1f}".format) + spread).reset_index()


def main(arguments: list[str] | None = None) -> None:
    """Train both forms of each on every set of data, and print the table."""
    parser = options(__doc__, PART, data=None, bits=(32,), epochs=15, seeds=3)
    parser.add_argument("--only", default="", metavar="METHOD", help="the lines that begin so")
    given = parser.parse_args(arguments)
    found = run(trials(given, [name for name in FORMS if name.startswith(given.only)]), given)
    show(markdown(table(found), left=1), PART, given.page)


if __name__ == "__main__":
    main()
