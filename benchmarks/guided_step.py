"""What the guidance costs: a guided training step against its host's, side by side in one run.

    python benchmarks/guided_step.py

64 bits, batch 64, embeddings of 1,280 numbers, a hidden layer of 1,024. The steps of host, guided host and guided host
with the surrogate as one would write it first take turns; the figures are medians, and ratios of them. "first" has a
module a block, PyTorch's dropout and a second forward pass for the second loss.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lbhash.centers import class_centers
from lbhash.losses import Objective, Task
from lbhash.losses.registry import METHODS, build_objective
from lbhash.models.hash_model import HashModel
from lbhash.models.surrogate import Surrogate
from side_by_side import in_turns, options, print_head, print_row, seconds_of

BITS, BATCH, DIM, HIDDEN, CLASSES, ROWS = 64, 64, 1280, 1024, 100, 5000


class FirstSurrogate(Surrogate):
    """The surrogate as it stands in Algorithm 1, block by block."""

    def __init__(self, bits: int) -> None:
        super().__init__(bits)
        for name in ("weight1", "bias1", "weight2", "bias2"):
            delattr(self, name)
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 256), nn.SiLU(), nn.Dropout(0.5), nn.Linear(256, 256))
            for _ in range(self.blocks)
        )

    def losses(self, logits: Tensor, codes: Tensor, centers: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """L_π and L_θ, each from a forward pass of its own."""
        fit = pull = logits.new_zeros(())
        for block, network in enumerate(self.networks):
            own = logits[:, 8 * block : 8 * block + 8]
            fit = fit + F.cross_entropy(network(own.detach()), codes[:, block])
            fixed = {name: weight.detach() for name, weight in network.named_parameters()}
            p = torch.func.functional_call(network, fixed, (own,))
            pull = pull + F.cross_entropy(p[rows], centers[:, block])
        return fit, pull


def stepper(objective: Objective, x: Tensor, labels: Tensor) -> Callable[[], None]:
    """A training step: forward, backward, Adam."""
    model = HashModel(DIM, BITS, HIDDEN)
    optimizer = torch.optim.Adam([*model.parameters(), *objective.parameters()], lr=1e-3, fused=True)
    objective.begin_epoch(0)
    generator = torch.Generator().manual_seed(0)

    def step() -> None:
        index = torch.randint(0, len(x), (BATCH,), generator=generator)
        optimizer.zero_grad()
        objective(model(x[index]), labels[index], index).backward()
        optimizer.step()

    return step


def main() -> None:
    """Print one table."""
    given = options(__doc__, rounds=100).parse_args()
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    x, labels = torch.randn(ROWS, DIM), torch.randint(0, CLASSES, (ROWS,))
    centers = torch.from_numpy(class_centers(CLASSES, BITS)).float()
    task = Task(BITS, CLASSES, labels, centers)
    print_head("threads", "host", "host, ms", "guided, ms", "guided / host", "first, ms", "first / host", words=2)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for method in METHODS:
            pulls = {"host": "none", "guided": "surrogate", "first": "surrogate"}
            objectives = {name: build_objective(method, task, pull=pull) for name, pull in pulls.items()}
            objectives["first"].surrogate = FirstSurrogate(BITS)
            steps = {name: partial(seconds_of, stepper(one, x, labels)) for name, one in objectives.items()}
            times = in_turns(steps, given.rounds, warm_up=5)
            host, guided, first = (1e3 * statistics.median(seen) for seen in times.values())
            figures = host, guided, guided / host, first, first / host
            print_row(threads, method, *(f"{value:.2f}" for value in figures))


if __name__ == "__main__":
    main()
