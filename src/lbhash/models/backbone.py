"""Backbones: models of others that turn an image into an embedding."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from functools import cached_property
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from lbhash.data.images.decoding import as_image
from lbhash.data.images.preprocessing import preprocess

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor, nn

Precision = Literal["32", "bf16"]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""The id of a model of the Hub, ``user/name``."""

_NOTES = ("_name_or_path", "architectures", "dtype", "processor_class", "torch_dtype", "transformers_version")
"""What a configuration says of its own making, and of nothing that it computes."""


class Backbone:
    """A vision model of Hugging Face ``transformers`` with its own preprocessing.

    One rule finds the embedding (``pooled``): the model's ``pooler_output`` where it has one; else, of a
    ``last_hidden_state [n, tokens, d]``, the class token where the model has one and the mean of the tokens where it
    has none; else, of one ``[n, c, h, w]``, the mean over the image. A pooler whose weights the checkpoint lacks is
    none: it would be random. Of a model of images and text (CLIP, SigLIP) the image tower alone is used, and its
    output before the projection to the space that text shares.

    Args:
        model: a vision model, in evaluation mode.
        processor: its image processor.
        name: what it was loaded by.

    Attributes:
        name: the name or folder that it was loaded by.
        model: the ``torch`` module.
        processor: the image processor.
    """

    def __init__(self, model: Any, processor: Any, name: str) -> None:
        self.model, self.processor, self.name = model, processor, name

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, *, device: str = "auto") -> Backbone:
        """Load a model folder, or a model of the Hub by its id, in float32.

        Weights come from safetensors only, nothing is unpickled, and no code of the repository is run. The models of
        timm (``timm/…`` on the Hub) need the packages timm and torchvision.

        Args:
            name_or_folder: a folder with ``config.json``, ``preprocessor_config.json`` and safetensors; or a Hub id.
            device: ``auto`` for a GPU where there is one, or a device of PyTorch's.

        Raises:
            ValueError: there is no such model, it holds pickles only, is no vision model, lacks weights or its
                preprocessing, or needs a package that is not installed.
        """
        name = check_backbone_name(name_or_folder)
        import torch
        from safetensors import SafetensorError
        from transformers import AutoImageProcessor

        from lbhash.models.tf_padding import drop_idle_padding

        try:
            with _quiet():
                model = _load_model(name)
                processor = AutoImageProcessor.from_pretrained(name, backend="pil", trust_remote_code=False)
        except (
            AttributeError,
            ImportError,
            LookupError,
            OSError,
            RuntimeError,
            SafetensorError,
            TypeError,
            ValueError,
        ) as error:
            line = " ".join(str(error).split())
            what = "which" if Path(name).exists() else "which is no folder, and as a model of the Hub"
            raise ValueError(f"backbone is {name!r}, {what} could not be loaded: {line}") from None
        if getattr(model, "main_input_name", None) != "pixel_values":
            raise ValueError(f"backbone is {name!r}, a {type(model).__name__}, which takes no images")
        drop_idle_padding(model)
        # The layout that convolutions are quickest in; a model without any does not mind.
        model.to(memory_format=torch.channels_last)
        return cls(model.to(_device(device)).eval(), processor, name)

    def anew(self, device: str = "auto") -> Backbone:
        """The same after its model has learned: with a fingerprint of what it is now, and in evaluation mode."""
        return Backbone(self.model.to(_device(device)).eval(), self.processor, self.name)

    def embed(
        self, images: Iterable[Image.Image | bytes], batch_size: int = 32, *, progress: bool = False
    ) -> npt.NDArray[np.float32]:
        """Embeddings ``float32 [n, dim]`` of images, in their order.

        Args:
            images: PIL images, or the bytes of image files (``decode_image``); taken as they are
                needed, so that a generator is never held in memory.
            batch_size: images in a pass through the model.
            progress: show a bar on standard error.

        Raises:
            TypeError, ValueError: an image is none; the message says which, counted from 0.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        rows = list(self.embed_batches(images, batch_size, progress=progress))
        return np.concatenate(rows) if rows else np.empty((0, self.dim), np.float32)

    def embed_batches(
        self, images: Iterable[Image.Image | bytes], batch_size: int = 32, *, progress: bool = False
    ) -> Iterator[npt.NDArray[np.float32]]:
        """As ``embed``, a batch at a time: ``float32 [up to batch_size, dim]``."""
        from lbhash.utils.progress import counted

        total = len(images) if isinstance(images, Sized) else None
        with counted("embedding", total, "images", show=progress) as advance:
            numbered = (as_image(image, f"image {at}") for at, image in enumerate(images))
            while batch := list(islice(numbered, batch_size)):
                yield self._outputs(batch)
                advance(len(batch))

    @cached_property
    def dim(self) -> int:
        """Length of an embedding."""
        from PIL import Image

        return int(self._outputs([Image.new("RGB", (64, 64))]).shape[1])

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder of ``transformers``: safetensors, ``config.json`` and ``preprocessor_config.json``."""
        with _quiet():
            self.model.save_pretrained(folder)
            self.processor.save_pretrained(folder)

    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the backbone: of a SHA-256 of its weights and its configuration."""
        return self._fingerprint

    def about(self) -> dict[str, Any]:
        """What a model remembers of the backbone of its embeddings (``check_backbone``)."""
        return {"name": self.name, "fingerprint": self.fingerprint(), "dim": self.dim}

    def preprocessing(self) -> dict[str, Any]:
        """What is done to an image before the model sees it, as the image processor says it."""
        return _said(self.processor.to_dict())

    @cached_property
    def _fingerprint(self) -> str:
        import torch

        digest = hashlib.sha256()
        said = {"model": _said(self.model.config.to_diff_dict()), "preprocessing": self.preprocessing()}
        digest.update(json.dumps(said, sort_keys=True, default=str).encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(f"{name} {list(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()[:16]

    def embed_pixels(self, pixels: Tensor, precision: Precision = "32") -> npt.NDArray[np.float32]:
        """Embeddings ``float32 [n, dim]`` of images that are preprocessed (``preprocess``), in one pass.

        Args:
            pixels: ``[n, channels, height, width]``.
            precision: ``bf16`` for mixed precision with bfloat16, whose embeddings are not those of 32 bits.
        """
        import torch

        device = next(self.model.parameters()).device
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            inputs = pixels.to(device, torch.float32, memory_format=torch.channels_last)
            made = pooled_output(self.model, inputs)
        return made.float().cpu().numpy()

    def _outputs(self, images: list[Image.Image]) -> npt.NDArray[np.float32]:
        return self.embed_pixels(preprocess(self.processor, images, self.name))


def check_backbone_name(name_or_folder: str | Path) -> str:
    """Return the name, or raise ``ValueError`` where one can see, without loading anything, that it leads to none."""
    name = str(name_or_folder)
    _check_packages()
    if Path(name).exists() or not _HUB_ID.fullmatch(name):
        _check_folder(name)
    return name


def pooled_output(model: nn.Module, pixels: Tensor) -> Tensor:
    """The embeddings ``[n, dim]`` of preprocessed images ``[n, channels, height, width]``, with their gradient.

    Of images of another size than the model was trained with, a model that can interpolate the encodings of its
    patches' positions is asked to.
    """
    usual: Any = getattr(getattr(model, "config", None), "image_size", None)
    can = usual is not None and "interpolate_pos_encoding" in signature(model.forward).parameters
    other = can and tuple(np.broadcast_to(usual, 2)) != tuple(pixels.shape[2:])
    return pooled(model, model(pixel_values=pixels, **({"interpolate_pos_encoding": True} if other else {})))


def pooled(model: nn.Module, outputs: Any) -> Tensor:
    """The embeddings ``[n, dim]`` in the outputs of a vision model, by the rule that ``Backbone`` states."""
    made = getattr(outputs, "pooler_output", None)
    if made is None:
        made = outputs.last_hidden_state
        if made.ndim == 3:
            made = made[:, 0] if _has_class_token(model) else made.mean(dim=1)
    return made.mean(dim=(2, 3)) if made.ndim == 4 else made


def _device(device: str) -> str:
    import torch

    return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device


def _has_class_token(model: nn.Module) -> bool:
    ends = ("cls_token", "class_embedding", "class_token")
    return any(name.rsplit(".", 1)[-1] in ends for name, _ in model.named_parameters())


def _load_model(name: str) -> Any:
    """The model of a folder or the Hub, every weight of it from the checkpoint; the image tower where it has two."""
    import torch
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.from_pretrained(name, trust_remote_code=False)
    with torch.random.fork_rng(devices=[]):  # a new model draws its weights; the caller's generator stays as it was
        model, report = AutoModel.from_pretrained(
            name,
            config=getattr(config, "vision_config", None) or config,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    missing = sorted(report["missing_keys"])
    if missing and all(key.startswith("pooler.") for key in missing):
        model.pooler = None
    elif missing:
        raise ValueError(f"it has no weights for {missing[0]} ({len(missing)} are missing)")
    return model


def _check_folder(name: str) -> None:
    folder = Path(name)
    if not folder.is_dir():
        raise ValueError(f"backbone is {name!r}, and there is no such folder; it must be one, or a Hub id 'user/name'")
    for file in ("config.json", "preprocessor_config.json"):
        if not (folder / file).is_file() and not (file == "preprocessor_config.json" and _is_timm(folder)):
            raise ValueError(f"backbone is {name!r}, which has no {file}; it must be a folder of transformers")
    if not any(folder.glob("*.safetensors")):
        raise ValueError(
            f"backbone is {name!r}, which has no .safetensors file; lbhash loads safetensors only, because a pickle "
            "can run code"
        )


def _is_timm(folder: Path) -> bool:
    """Whether a folder is timm's, which keeps the preprocessing in the configuration of the model."""
    try:
        return "pretrained_cfg" in json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (TypeError, ValueError):
        return False


def _check_packages() -> None:
    from importlib.util import find_spec

    for package in ("transformers", "PIL"):
        if find_spec(package) is None:
            raise ValueError(f"a backbone needs the package {package}: pip install 'lbhash[images]'")


def _said(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in _NOTES and value is not None}


@contextmanager
def _quiet() -> Iterator[None]:
    """``transformers`` without its reports and bars, and back as it was."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
