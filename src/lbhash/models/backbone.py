"""Backbones: pretrained vision models that turn an image into an embedding."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from lbhash.data.images.decoding import as_image
from lbhash.data.images.loading import preprocess
from lbhash.utils.fingerprint import fingerprint
from lbhash.utils.paths import folder_with
from lbhash.utils.system import check_packages
from lbhash.utils.validation import check_int, refusing

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor, nn

Precision = Literal["32", "bf16"]

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")  # a model's id on the Hub, user/name

# The keys of a configuration that do not affect what the model computes.
_NOTES = ("_name_or_path", "architectures", "dtype", "processor_class", "torch_dtype", "transformers_version")


class Backbone:
    """A vision model of Hugging Face ``transformers``, in evaluation mode, with its own preprocessing.

    The embedding (``pooled``) is the model's ``pooler_output`` if it has one and the checkpoint has its weights.
    Otherwise it comes from ``last_hidden_state``: from ``[n, tokens, d]`` the class token, or the mean of the tokens if
    there is none; from ``[n, c, h, w]`` the mean over the image. A model of images and text (CLIP, SigLIP) uses only
    its image tower, without the projection to the shared space.
    """

    def __init__(self, model: Any, processor: Any, name: str) -> None:
        self.model, self.processor, self.name = model, processor, name

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, *, device: str = "auto") -> Backbone:
        """Load a model in float32 from a Hub id, or a folder with its configurations and safetensors.

        Nothing is unpickled, and no code of the repository is run. The models of timm (``timm/…`` on the Hub) need the
        packages timm and torchvision. The device "auto" is a GPU if there is one. Raises ``ValueError`` if
        the model cannot be loaded.
        """
        name = check_backbone_name(name_or_folder)
        import torch
        from transformers import AutoImageProcessor

        with loading("backbone", name):
            folder = str(hub_folder(name))
            model = _load_model(folder)
            processor = AutoImageProcessor.from_pretrained(folder, backend="pil", trust_remote_code=False)
        if getattr(model, "main_input_name", None) != "pixel_values":
            raise ValueError(f"backbone is {name!r}, a {type(model).__name__}, which takes no images")
        drop_idle_padding(model)
        # Convolutions are fastest in this layout; it has no effect on models without any.
        model.to(memory_format=torch.channels_last)
        return cls(model.to(device_of(device)).eval(), processor, name)

    def anew(self, device: str = "auto") -> Backbone:
        """Return a copy that shares the model, in evaluation mode; its fingerprint is that of the current weights."""
        return Backbone(self.model.to(device_of(device)).eval(), self.processor, self.name)

    def embed(self, images: Iterable[Image.Image | bytes], batch_size: int = 32) -> npt.NDArray[np.float32]:
        """Return the embeddings ``float32 [n, dim]`` of PIL images, or paths or bytes of image files, in order.

        A generator is read batch by batch. Errors name an item by its position, counted from 0.
        """
        rows = list(self.embed_batches(images, batch_size))
        return np.concatenate(rows) if rows else np.empty((0, self.dim), np.float32)

    def embed_batches(
        self, images: Iterable[Image.Image | bytes], batch_size: int = 32
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the embeddings of ``embed`` batch by batch, ``float32 [up to batch_size, dim]``."""
        check_int(batch_size, "batch_size", 1)
        numbered = (as_image(image, f"image {at}") for at, image in enumerate(images))
        while batch := list(islice(numbered, batch_size)):
            yield self._outputs(batch)

    @cached_property
    def dim(self) -> int:
        """Return the length of an embedding."""
        from PIL import Image

        return int(self._outputs([Image.new("RGB", (64, 64))]).shape[1])

    def save_pretrained(self, folder: str | Path) -> None:
        """Write safetensors, ``config.json`` and ``preprocessor_config.json``, as ``transformers`` does."""
        with quiet():
            self.model.save_pretrained(folder)
            self.processor.save_pretrained(folder)

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the backbone by its weights and its configuration."""
        return self._fingerprint

    def metadata(self) -> dict[str, Any]:
        """Return the metadata that a hash model stores about its backbone (``check_backbone``)."""
        return {"name": self.name, "fingerprint": self.fingerprint(), "dim": self.dim}

    def preprocessing(self) -> dict[str, Any]:
        """Return the configuration of the image processor."""
        return without_notes(self.processor.to_dict())

    @cached_property
    def _fingerprint(self) -> str:
        config = without_notes(self.model.config.to_diff_dict())
        return fingerprint_of(self.model, {"model": config, "preprocessing": self.preprocessing()})

    def embed_pixels(self, pixels: Tensor, precision: Precision = "32") -> npt.NDArray[np.float32]:
        """Return the embeddings ``float32 [n, dim]`` of preprocessed images ``[n, channels, height, width]``."""
        import torch

        device = next(self.model.parameters()).device
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            inputs = pixels.to(device, torch.float32, memory_format=torch.channels_last)
            return pooled_output(self.model, inputs).float().cpu().numpy()

    def _outputs(self, images: list[Image.Image]) -> npt.NDArray[np.float32]:
        return self.embed_pixels(preprocess(self.processor, images, self.name))


def check_backbone_name(name_or_folder: str | Path) -> str:
    """Return the name as text; raises ``ValueError`` if it cannot name a backbone, without loading anything."""
    name = str(name_or_folder)
    check_packages("a backbone", "images", "transformers", "PIL")
    if Path(name).exists() or not HUB_ID.fullmatch(name):
        _check_folder(name)
    if _is_timm(Path(name)) or (name.startswith("timm/") and not Path(name).exists()):
        check_packages(f"backbone {name!r}, a model of timm,", "timm", "timm", "torchvision")
    return name


def hub_folder(name: str, revision: str | None = None) -> Path:
    """Return the folder of a model: a local one, or one of the Hub named by its revision; download no pickle.

    Raises ``OSError`` if the Hub has no such model, or cannot be reached and the model is not cached.
    """
    if Path(name).exists():
        return Path(name)
    from huggingface_hub import snapshot_download

    options: Any = {"revision": revision, "allow_patterns": ["*.json", "*.safetensors", "*.txt", "*.model"]}
    if revision is not None:
        with suppress(OSError):  # a cached model needs no network
            return Path(snapshot_download(name, local_files_only=True, **options))
    return Path(snapshot_download(name, **options))


def fingerprint_of(model: nn.Module, facts: dict[str, Any]) -> str:
    """Return 16 hexadecimal digits that identify a model by its weights, and ``facts`` that its outputs depend on."""
    import torch

    def weights() -> Iterator[Any]:
        for name, tensor in sorted(model.state_dict().items()):
            yield f"{name} {list(tensor.shape)} {tensor.dtype}"
            yield tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()

    return fingerprint(facts, weights())


def pooled_output(model: nn.Module, pixels: Tensor) -> Tensor:
    """Return the embeddings ``[n, dim]`` of preprocessed images ``[n, channels, height, width]``, with their gradient.

    For images of another size, the model interpolates its position encodings, if it can.
    """
    usual: Any = getattr(getattr(model, "config", None), "image_size", None)
    can = usual is not None and "interpolate_pos_encoding" in signature(model.forward).parameters
    other = can and tuple(np.broadcast_to(usual, 2)) != tuple(pixels.shape[2:])
    return pooled(model, model(pixel_values=pixels, **({"interpolate_pos_encoding": True} if other else {})))


def pooled(model: nn.Module, outputs: Any) -> Tensor:
    """Return the embeddings ``[n, dim]`` in the outputs of a vision model, by the rule that ``Backbone`` states."""
    made = getattr(outputs, "pooler_output", None)
    if made is None:
        made = outputs.last_hidden_state
        if made.ndim == 3:
            ends = {name.rsplit(".", 1)[-1] for name, _ in model.named_parameters()}
            has_class_token = not ends.isdisjoint(("cls_token", "class_embedding", "class_token"))
            made = made[:, 0] if has_class_token else made.mean(dim=1)
    return made.mean(dim=(2, 3)) if made.ndim == 4 else made


def device_of(device: str) -> str:
    """Return PyTorch's name of a device; auto, gpu and mps mean a CUDA GPU, or the CPU if there is none."""
    import torch

    if device not in ("auto", "gpu", "mps"):
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


def _load_model(name: str) -> Any:
    """Load a model with all its weights from a folder or the Hub; if it has two towers, only the image tower."""
    import torch
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.from_pretrained(name, trust_remote_code=False)
    with torch.random.fork_rng(devices=[]):  # the random weights of a new model must not change the caller's state
        options = {"use_safetensors": True, "trust_remote_code": False, "output_loading_info": True}
        tower = getattr(config, "vision_config", None) or config
        model, report = AutoModel.from_pretrained(name, config=tower, dtype=torch.float32, **options)
    missing = sorted(report["missing_keys"])
    if missing and all(key.startswith("pooler.") for key in missing):
        model.pooler = None
    elif missing:
        raise ValueError(f"it has no weights for {missing[0]} ({len(missing)} are missing)")
    return model


def _check_folder(name: str) -> None:
    what = "a folder of transformers, or a Hub id 'user/name'"
    folder = folder_with(name, "backbone", what, "config.json")
    if not _is_timm(folder):
        folder_with(name, "backbone", what, "preprocessor_config.json")
    if not any(folder.glob("*.safetensors")):
        why = "lbhash loads safetensors only, because a pickle can run code"
        raise ValueError(f"backbone is {name!r}, which has no .safetensors file; {why}")


def _is_timm(folder: Path) -> bool:
    """Return whether a folder has a model of timm, which stores the preprocessing in the model's configuration."""
    with suppress(OSError, TypeError, ValueError, RecursionError):
        return "pretrained_cfg" in json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return False


def drop_idle_padding(model: nn.Module) -> None:
    """Let convolutions of MobileNetV1 and V2 pad their input themselves where this equals TensorFlow's padding.

    ``transformers`` copies and pads the input of every convolution of these models, but TensorFlow pads unevenly only
    with a stride of 2. The outputs stay the same, bit for bit; a training step of MobileNetV2 on a CPU takes 15 % less
    time. The saved configuration does not change.
    """
    from torch.nn import Conv2d

    for layer in model.modules():
        convolution: Any = getattr(layer, "convolution", None)
        config: Any = getattr(layer, "config", None)
        if not isinstance(convolution, Conv2d) or not getattr(config, "tf_padding", False):
            continue
        kernels = zip(convolution.kernel_size, convolution.dilation, strict=True)
        height, width = ((kernel - 1) * dilation for kernel, dilation in kernels)
        if convolution.stride == (1, 1) and convolution.padding == (0, 0) and height % 2 == width % 2 == 0:
            convolution.padding = (height // 2, width // 2)
            own = copy.copy(config)
            own.tf_padding = False
            layer.config = own


def without_notes(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a configuration, without what does not change outputs, such as versions."""
    return {name: value for name, value in config.items() if name not in _NOTES and value is not None}


@contextmanager
def loading(kind: str, name: str) -> Iterator[None]:
    """Silence libraries while they load a model, and turn their errors into a ``ValueError`` of one line."""
    with unloadable(kind, name), quiet():
        yield


@contextmanager
def unloadable(kind: str, name: str) -> Iterator[None]:
    """Turn errors of loading a model into a ``ValueError`` of one line.

    Any error: a damaged configuration makes ``transformers`` divide by zero, or recur without end.
    """
    what = "which" if Path(name).exists() else "which is no folder, and as a model of the Hub"
    with refusing(f"{kind} is {name!r}, {what} could not be loaded", Exception):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the reports and progress bars of ``transformers`` while the block runs."""
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
