"""Encode with NumPy alone: a trained model's weights, and its raw outputs ℓ, whose signs are the code.

``lbhash.models.hash_model`` has the same model as a PyTorch module, for training.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from lbhash.codes import PackedCodes, code_bytes, pack_outputs
from lbhash.models.folder import check_model_folder
from lbhash.utils.checksums import checked, with_checksum
from lbhash.utils.files import check_replaceable, make_folder, naming, replacing
from lbhash.utils.fingerprint import fingerprint
from lbhash.utils.paths import check_path
from lbhash.utils.serialization import plain, read_versioned
from lbhash.utils.threads import in_threads
from lbhash.utils.validation import check_int, check_type, refusing

_FORMAT, _VERSION = "lbhash model", 2
_BATCH = 2048
"""Rows at a time, so that the outputs of a hidden layer stay in the processor's cache."""

_UNSURE = 1e-5
"""Outputs below this share of their row's largest are computed again, in double precision."""

MODEL_CARD = """---
library_name: lbhash
tags:
- learning-to-hash
- similarity-search
---

# A hash model of lbhash

It turns {what} into a binary code of {bits} bits, to be searched by Hamming distance.

| what | value |
|---|---|
{facts}

```python
from lbhash import Hasher

hasher = Hasher.from_pretrained("PATH OR HUB ID")
codes = hasher.encode({given})  # uint8 [n, {code_bytes}]
```
"""


@dataclass(frozen=True)
class Layout:
    """The shape of a model.

    Attributes:
        dim: length of an embedding.
        bits: the length of a code.
        hidden: width of the hidden layer; 0 for a linear head.
        dropout: probability that an input is dropped in training.
        classifier: number of classes of the method's linear classifier on codes, stored beside the head; or 0.
        posterior: ``classes`` of a class posterior branch, and whether a row may have ``several``; or None.
        neighborhood: whether a branch keeps the embedding's own neighborhoods.
    """

    dim: int
    bits: int
    hidden: int = 1024
    dropout: float = 0.5
    classifier: int = 0
    posterior: dict[str, Any] | None = None
    neighborhood: bool = False

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each weight by name."""
        dim, bits, hidden = self.dim, self.bits, self.hidden
        layers = {"head.0": (hidden, dim), "head.2": (bits, hidden)} if hidden else {"head": (bits, dim)}
        found: dict[str, tuple[int, ...]] = {"mean": (dim,), "scale": (dim,)}
        if self.classifier:
            found["classifier.weight"] = self.classifier, bits
        if self.posterior is not None:
            classes = self.posterior["classes"]
            layers["posterior.linear"] = classes, dim
            found |= {"posterior.centers": (classes, bits), "posterior.directions": (bits, dim)}
            found |= {"posterior.mean": (dim,), "posterior.strength": (bits,), "posterior.phases": (bits,)}
        if self.neighborhood:
            found |= {"neighborhood.linear.weight": (bits, dim), "neighborhood.mean": (dim,), "neighborhood.share": ()}
        for name, shape in layers.items():
            found |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
        return found


class Encoder:
    """A trained model: standardization of embeddings, a linear head or one with a hidden layer, and branches.

    ℓ = W2 · relu(W1 · (x − mean) / scale + b1) + b2,  code = sign ℓ with bin(0) = +1

    With a class posterior branch (``lbhash.models.posterior.ClassPosterior``), the outputs are tanh ℓ plus this branch.
    A neighborhood branch (``lbhash.models.neighborhood.Neighborhood``) comes last.

    Args:
        layout: the shape of the model.
        weights: its tensors by name, ``float32``, as ``lbhash.models.hash_model`` has them.
        metadata: how the model was made (method, seed, data …), as JSON values; also ``coder`` and ``learns_classes``
        if it is a coder.
    """

    def __init__(
        self, layout: Layout, weights: dict[str, npt.NDArray[np.float32]], metadata: dict[str, Any] | None = None
    ) -> None:
        self.layout, self.weights = layout, weights
        self.metadata: dict[str, Any] = plain(metadata or {}, "metadata")

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return self.layout.dim

    def check_dim(self, dim: int) -> None:
        """Raise ``ValueError`` unless embeddings of ``dim`` numbers are as long as the model's."""
        if dim != self.dim:
            raise ValueError(f"embeddings have {dim} numbers a row; the model takes {self.dim}")

    @property
    def bits(self) -> int:
        """The length of a code."""
        return self.layout.bits

    @property
    def classifier(self) -> npt.NDArray[np.float32] | None:
        """Weights ``[C, bits]`` of the method's own classifier of codes; None if it has none."""
        return self.weights.get("classifier.weight")

    def encode(self, x: npt.NDArray) -> PackedCodes:
        """Return the codes of embeddings ``[n, dim]`` of any number type, ``uint8 [n, ceil(bits / 8)]``."""
        return pack_outputs(self.outputs(x))

    def outputs(self, x: npt.NDArray) -> npt.NDArray[np.float32]:
        """Return the raw outputs ℓ, ``float32 [n, bits]``, of embeddings ``[n, dim]`` of any number type.

        The last digits of sums depend on how many rows are computed together. Codes do not: outputs so near 0 that
        their sign could change are computed in double precision.
        """
        found = np.empty((len(x), self.bits), np.float32)

        def compute(start: int) -> None:
            rows = np.asarray(x[start : start + _BATCH], np.float32)
            part = found[start : start + _BATCH]
            with np.errstate(over="ignore", invalid="ignore"):  # numbers near float32's limit give NaN
                part[:] = self._forward(rows)
                size = np.abs(part)
                near = size <= _UNSURE * size.max(axis=1, keepdims=True)
                if (some := near.any(axis=1)).any():
                    part[some] = np.where(near[some], self._forward(rows[some].astype(np.float64)), part[some])

        in_threads(compute, range(0, len(x), _BATCH))
        return found

    @property
    def learns_classes(self) -> bool:
        """Whether the method has learned from labels."""
        return bool(self.metadata.get("learns_classes", True))

    def soft(self, outputs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return ℓ ``[n, bits]`` at the scale of bits: tanh ℓ of a host method, as in training; otherwise ℓ itself."""
        branches = self.layout.posterior is not None or self.layout.neighborhood
        return outputs if self.metadata.get("coder") or branches else np.tanh(outputs)

    def _forward(self, x: npt.NDArray) -> npt.NDArray:
        """Return ℓ of a batch, in its own precision."""

        def linear(name: str, rows: npt.NDArray) -> npt.NDArray:
            made = rows @ self.weights[f"{name}.weight"].T.astype(x.dtype, copy=False)
            bias = self.weights.get(f"{name}.bias")
            return made if bias is None else np.add(made, bias, out=made)

        weights = self.weights
        rows = x - weights["mean"]
        rows /= weights["scale"]
        if self.layout.hidden:
            rows = linear("head.0", rows)
            found = linear("head.2", np.maximum(rows, 0, out=rows))
        else:
            found = linear("head", rows)
        if self.layout.posterior is not None:
            rows = x - weights["posterior.mean"]
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
            scores = linear("posterior.linear", rows)
            if self.layout.posterior["several"]:
                p = 0.5 * np.tanh(0.5 * scores) + 0.5  # the logistic function, without overflow
            else:
                p = np.exp(scores - scores.max(axis=1, keepdims=True))
                p /= p.sum(axis=1, keepdims=True)
            turns = rows @ weights["posterior.directions"].T.astype(x.dtype, copy=False) + weights["posterior.phases"]
            dither = weights["posterior.strength"] * (4 * np.abs(turns - np.floor(turns) - 0.5) - 1)
            found = np.tanh(found) + p @ weights["posterior.centers"].astype(x.dtype, copy=False) + dither
        if self.layout.neighborhood:
            nearby = linear("neighborhood.linear", x - weights["neighborhood.mean"])
            found = weights["neighborhood.share"] * found + nearby
        return found

    @property
    def has_tuned_backbone(self) -> bool:
        """Whether a backbone was fine-tuned with the model; it is stored in the model's folder."""
        return bool((self.metadata.get("backbone") or {}).get("tuned"))

    @property
    def takes_texts(self) -> bool:
        """Whether its embeddings come from an encoder of texts."""
        return (self.metadata.get("backbone") or {}).get("kind") == "text"

    def reading_of(self, data: str | Path, backbone: Callable[[], Any]) -> dict[str, Any]:
        """Return arguments with which ``lbhash.data.load_table`` reads data as the training did.

        A file with the name of the training file keeps its columns of embeddings and labels; any table keeps the column
        of texts. ``backbone`` returns the encoder of these texts.
        """
        from lbhash.data.readers import holds_embeddings  # a slow import

        here = self.metadata.get("data") == Path(data).name
        texts = self.takes_texts and not holds_embeddings(data, self.metadata.get("text_column"))
        names = [*(("embedding_column", "label_column") if here else ()), *(("text_column",) if texts else ())]
        reading = {name: self.metadata[name] for name in names if name in self.metadata}
        return {**reading, "encoder": backbone()} if texts else reading

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the model by its weights, in the order of their names."""
        return fingerprint(*(part for weight in sorted(self.weights.items()) for part in weight))

    def save(self, directory: str | Path) -> None:
        """Write ``model.safetensors``, ``config.json`` and a model card; whole files, renamed into place.

        The configuration is written last. It holds the fingerprint of the weights and its own checksum, so that loading
        notices an interrupted save or a changed configuration.
        """
        target = Path(directory)
        metadata = plain(self.metadata, "metadata")
        config = {name: value for name, value in vars(self.layout).items() if value is not None and value is not False}
        config["metadata"] = {**metadata, "fingerprint": self.fingerprint()}
        config |= {"format": _FORMAT, "version": _VERSION}
        what, of = f"an embedding of {self.dim} numbers", "embeddings"
        if self.takes_texts:
            what, of = f"a text, by way of {what},", "texts"
        elif self.has_tuned_backbone:
            what, of = f"an image, by way of {what},", "images"
        card = MODEL_CARD.format(
            what=what,
            bits=self.bits,
            facts="\n".join(f"| {key} | {value} |" for key, value in _told(metadata)),
            given=of,
            code_bytes=code_bytes(self.bits),
        )
        make_folder(target)
        for left in target.glob(".saving-*"):  # from a killed save
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=target, prefix=".saving-") as made:
            with naming(target, SafetensorError):
                (Path(made) / "README.md").write_text(card, encoding="utf-8")
                save_file(self.weights, Path(made) / "model.safetensors")
                text = json.dumps(with_checksum(config), sort_keys=True, indent=2)
                (Path(made) / "config.json").write_text(text, encoding="utf-8")
            files = sorted(Path(made).iterdir(), key=lambda file: (file.name == "config.json", file.name))
            for file in files:
                check_replaceable(target / file.name)
            for file in files:
                with replacing(target / file.name) as temporary:
                    file.replace(temporary)


def _told(metadata: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the facts of a model card, without the mAP that chose the posterior's weight: it is another model's."""
    for key, value in metadata.items():
        yield key, {name: one for name, one in value.items() if name != "map"} if key == "posterior" else value


def load_encoder(directory: str | Path, *, hub: bool = False, name: str = "model") -> Encoder:
    """Load a model folder or, if ``hub``, a model of the Hub (``user/name``); nothing is unpickled.

    Raises ``ValueError``, which calls the argument ``name``, if there is no such model, or it cannot be loaded.
    """
    check_path(directory, name)
    on_hub = hub and not Path(directory).exists() and re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", str(directory)) is not None
    if not on_hub:
        check_model_folder(directory, name)
    errors = KeyError, OSError, SafetensorError, TypeError, ValueError
    with refusing(f"{name} is {str(directory)!r}, which could not be loaded", *errors):
        return _load(Path(_downloaded(str(directory)) if on_hub else directory))


def _downloaded(model: str) -> str:
    """Return the folder with the files of a model of the Hub."""
    from huggingface_hub import snapshot_download

    return snapshot_download(model, allow_patterns=["config.json", "model.safetensors"])


def _load(folder: Path) -> Encoder:
    """Load the files of a folder; checksum and fingerprint in the configuration must be right."""
    content = (folder / "config.json").read_bytes()
    found = read_versioned(content, _FORMAT, _VERSION, "config.json is one", "train the model again")
    try:
        config = checked(found)
    except (ValueError, RecursionError):
        raise ValueError(
            "config.json is damaged, was changed after the model was saved, or is of another version of lbhash; "
            "restore the file, or train the model again"
        ) from None
    metadata = check_type(config.pop("metadata", None), "metadata", dict, "an object")
    layout = Layout(**{name: value for name, value in config.items() if name not in ("format", "version")})
    for name in ("dim", "bits", "hidden", "classifier"):
        check_int(getattr(layout, name), name)
    made = Encoder(layout, load_file(folder / "model.safetensors"), metadata)
    written_with, holds = made.metadata.pop("fingerprint", None), made.fingerprint()
    if written_with != holds:
        raise ValueError(
            f"config.json was written with the weights {written_with} and model.safetensors holds {holds}; "
            "they are of two models, or a save was cut short: save the model again, or resume its training"
        )
    if set(layout.posterior or {"classes", "several"}) != {"classes", "several"}:
        raise ValueError(f"posterior is {layout.posterior}; it must have classes and several")
    held = {name: (*array.shape, str(array.dtype)) for name, array in made.weights.items()}
    wanted = {name: (*shape, "float32") for name, shape in layout.shapes().items()}
    if held != wanted:
        name = min(name for name in {*held, *wanted} if held.get(name) != wanted.get(name))
        said = " and ".join(f"{one}" if one else "none" for one in (wanted.get(name), held.get(name)))
        raise ValueError(f"config.json and model.safetensors are of two models: for the weight {name} they have {said}")
    return made
