"""The trained model: a backbone, and a head on its embeddings."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lbhash.models.backbone import pooled_output
from lbhash.models.hash_model import HashModel

_MOMENTUM = 0.1  # PyTorch's default


class ImageModel(nn.Module):
    """A vision model and a hash model on its embeddings: ℓ = head(pooled(backbone(pixels))).

    Batch normalization in the backbone has two policies. With ``freeze``, the running statistics stay fixed and are
    also used in training; scale and shift are learned. Training then uses the same features as encoding. With
    ``train``, a step normalizes by the statistics of its own batch, and updates the running ones. Use it if the
    backbone's statistics do not fit the images at all (random weights, other sensors); it needs large batches.

    With ``train``, a batch's weight (momentum) in the running statistics is at most 0.1. The MobileNets of
    ``transformers`` set 0.997, which in TensorFlow means PyTorch's 0.003; the statistics would be those of the last
    batch only.
    """

    def __init__(self, backbone: nn.Module, head: HashModel, batch_norm: Literal["freeze", "train"] = "freeze") -> None:
        super().__init__()
        self.backbone, self.head = backbone, head
        self.batch_norm = batch_norm
        for module in backbone.modules():
            if isinstance(module, _BatchNorm) and module.momentum is not None:
                module.momentum = min(module.momentum, _MOMENTUM)
        # Convolutions are fastest in this layout; models without convolutions are unaffected.
        backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, pixels: Tensor) -> Tensor:
        """Return raw outputs ℓ, ``[n, bits]``, of preprocessed images ``[n, channels, height, width]``."""
        return self.head(pooled_output(self.backbone, pixels.contiguous(memory_format=torch.channels_last)))

    def train(self, mode: bool = True) -> ImageModel:
        """Set the mode of every module, except layers with frozen statistics."""
        super().train(mode)
        if self.batch_norm == "freeze":
            for module in self.backbone.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self
