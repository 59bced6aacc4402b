"""An encoder of MTEB whose embeddings are codes, compared by Hamming distance; ``pip install 'lbhash[mteb]'``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lbhash.codes import unpack

if TYPE_CHECKING:
    from lbhash.hasher import Hasher


class HashEncoder:
    """A model of MTEB with a hasher behind it: embeddings are ±1, ``[n, bits]``, similarity is minus the distance.

    Args:
        model: what ``mteb.get_model`` returns, or any other encoder of MTEB.
        hasher: a ``Hasher`` that was trained on embeddings of the model.
    """

    def __init__(self, model: Any, hasher: Hasher) -> None:
        self.model, self.hasher = model, hasher

    @property
    def mteb_model_meta(self) -> Any:
        """The model's own, with the number of bits in its name."""
        meta = self.model.mteb_model_meta
        return meta.model_copy(update={"name": f"{meta.name}-{self.hasher.bits}-bits", "embed_dim": self.hasher.bits})

    def encode(self, inputs: Any, **kwargs: Any) -> Any:
        """Return the codes of the inputs as ±1, ``float32 [n, bits]``."""
        embeddings = torch.as_tensor(self.model.encode(inputs, **kwargs)).detach().float().cpu().numpy()
        return unpack(self.hasher.encode(embeddings), self.hasher.bits).astype(np.float32)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Return minus the Hamming distance of every pair, ``[n, m]``."""
        one, other = (torch.atleast_2d(torch.as_tensor(side)) for side in (embeddings1, embeddings2))
        return (one @ other.T - self.hasher.bits) / 2

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Return minus the Hamming distance of each row to the row beside it, ``[n]``."""
        one, other = torch.as_tensor(embeddings1), torch.as_tensor(embeddings2)
        return ((one * other).sum(dim=-1) - self.hasher.bits) / 2
