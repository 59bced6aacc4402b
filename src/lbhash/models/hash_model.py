"""The hash model as a PyTorch module, for training; ``lbhash.models.encoder`` stores it, and computes codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lbhash.models.dropout import Dropout
from lbhash.models.encoder import Encoder, Layout
from lbhash.models.neighborhood import Neighborhood
from lbhash.models.posterior import ClassPosterior


class HashModel(nn.Module):
    """Standardization of the input, then a linear head (``hidden`` 0) or one with a hidden layer.

    ℓ = W2 · relu(W1 · dropout((x − mean) / scale) + b1) + b2,  code = sign ℓ with bin(0) = +1

    With a ``posterior`` branch (``lbhash.models.posterior``), the outputs are tanh ℓ plus this branch. A
    ``neighborhood`` branch (``lbhash.models.neighborhood``) comes last. Both are fitted after the head and take no part
    in its training.

    Inputs are dropped in training, because the protocols have few rows with many numbers each. The arguments are those
    of ``Layout``; ``metadata`` is that of ``Encoder``.
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        dim: int,
        bits: int,
        hidden: int = 1024,
        dropout: float = 0.5,
        classifier: int = 0,
        posterior: dict[str, Any] | None = None,
        neighborhood: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.dim, self.bits, self.hidden = dim, bits, hidden
        self.metadata: dict[str, Any] = dict(metadata or {})
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))
        self.dropout = Dropout(dropout)
        layers = (nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, bits)) if hidden else ()
        self.head: nn.Module = nn.Sequential(*layers) if hidden else nn.Linear(dim, bits)
        self.classifier = nn.Linear(bits, classifier, bias=False) if classifier else None
        self.posterior = None if posterior is None else ClassPosterior(dim, bits, **posterior)
        self.neighborhood = Neighborhood(dim, bits) if neighborhood else None

    @classmethod
    def of(cls, encoder: Encoder) -> HashModel:
        """Return a model as a module, in evaluation mode."""
        with torch.random.fork_rng(devices=[]):  # the random weights of a new module must not change the caller's state
            model = cls(**vars(encoder.layout), metadata=encoder.metadata)
        model.load_state_dict({name: torch.from_numpy(values) for name, values in encoder.weights.items()})
        return model.eval()

    def encoder(self) -> Encoder:
        """Return the model with a copy of its weights as they are now, for encoding."""
        layout = Layout(
            self.dim,
            self.bits,
            self.hidden,
            self.dropout.probability,
            0 if self.classifier is None else self.classifier.out_features,
            None if self.posterior is None else self.posterior.config,
            self.neighborhood is not None,
        )
        weights = {name: tensor.cpu().numpy().copy() for name, tensor in self.state_dict().items()}
        return Encoder(layout, weights, self.metadata)

    def forward(self, x: Tensor) -> Tensor:
        """Return the raw outputs ``[n, bits]`` of embeddings ``[n, dim]``: ℓ, with the branches if there are any."""
        logits: Tensor = self.head(self.dropout((x - self.mean) / self.scale))
        outputs = logits if self.posterior is None else logits.tanh() + self.posterior(x)
        return outputs if self.neighborhood is None else self.neighborhood(x, outputs)

    def set_standardization(self, mean: np.ndarray, deviation: np.ndarray) -> None:
        """Standardize inputs by these statistics, ``[dim]`` each; a feature that never varies is not scaled."""
        self.mean.copy_(torch.as_tensor(mean))
        self.scale.copy_(torch.as_tensor(np.where(deviation > 0, deviation, 1.0)))
