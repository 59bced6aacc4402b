"""The hash model: a head on embeddings that gives the raw outputs ℓ, whose signs are the code."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub import PyTorchModelHubMixin, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_model as load_weights
from torch import Tensor, nn

from lbhash.codes import PackedCodes, check_bits, code_bytes, pack
from lbhash.models.dropout import Dropout
from lbhash.models.folder import check_replaces_ours
from lbhash.models.neighborhood import Neighborhood
from lbhash.models.posterior import ClassPosterior
from lbhash.utils.checksums import checked, with_checksum
from lbhash.utils.files import check_replaceable, make_folder, naming, replacing
from lbhash.utils.fingerprint import fingerprint
from lbhash.utils.formatting import one_line
from lbhash.utils.serialization import plain
from lbhash.utils.validation import check_int

PICKLES = {".bin", ".ckpt", ".joblib", ".pickle", ".pkl", ".pt", ".pth"}

_OF_A_DOWNLOAD = ("revision", "cache_dir", "force_download", "local_files_only", "token")

MODEL_CARD = """---
{{ card_data }}
---

# A hash model of lbhash

It turns {{ what }} into a binary code of {{ bits }} bits, to be searched by Hamming distance.

| what | value |
|---|---|
{{ facts }}

```python
from lbhash import Hasher

hasher = Hasher.from_pretrained("PATH OR HUB ID")
codes = hasher.encode({{ given }})  # uint8 [n, {{ code_bytes }}]
```
"""


class HashModel(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="lbhash",
    tags=["learning-to-hash", "similarity-search"],
    model_card_template=MODEL_CARD,
):
    """Standardization of the input, then a linear head (``hidden`` 0) or one with a hidden layer.

    ℓ = W2 · relu(W1 · dropout((x − mean) / scale) + b1) + b2,  code = sign ℓ with bin(0) = +1

    With a ``posterior`` branch the outputs are tanh ℓ plus that branch (``lbhash.models.posterior``), which is fitted
    after the head and is no part of its training. So is a ``neighborhood`` branch (``lbhash.models.neighborhood``),
    which comes last.

    Inputs are dropped in training, because the protocols have few rows, of many numbers each. ``classifier`` is the
    number of classes of the method's own linear classifier on codes, stored beside the head; 0 if it has none.
    ``metadata`` is what made the model (method, seed, data …), for the configuration, so JSON must be able to hold it.
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
        metadata: dict[str, Any] | None = None,
        posterior: dict[str, Any] | None = None,
        neighborhood: bool = False,
    ) -> None:
        super().__init__()
        self.dim, self.bits, self.hidden = check_int(dim, "dim", 1), check_bits(bits), check_int(hidden, "hidden")
        check_int(classifier, "classifier")
        self.metadata: dict[str, Any] = plain(metadata or {}, "metadata")
        check_metadata(self.metadata)
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))
        self.dropout = Dropout(dropout)
        layers = (nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, bits)) if hidden else ()
        self.head: nn.Module = nn.Sequential(*layers) if hidden else nn.Linear(dim, bits)
        self.classifier = nn.Linear(bits, classifier, bias=False) if classifier else None
        self.posterior = None if posterior is None else ClassPosterior(dim, bits, **posterior)
        self.neighborhood = Neighborhood(dim, bits) if neighborhood else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the raw outputs ``[n, bits]`` of embeddings ``[n, dim]``: ℓ, or what it is with the branches."""
        logits: Tensor = self.head(self.dropout((x - self.mean) / self.scale))
        outputs = logits if self.posterior is None else logits.tanh() + self.posterior(x)
        return outputs if self.neighborhood is None else self.neighborhood(x, outputs)

    def set_standardization(self, mean: np.ndarray, deviation: np.ndarray) -> None:
        """Standardize inputs by these statistics, ``[dim]`` each; a feature that never varies is not scaled."""
        self.mean.copy_(torch.as_tensor(mean))
        self.scale.copy_(torch.as_tensor(np.where(deviation > 0, deviation, 1.0)))

    @torch.inference_mode()
    def encode(self, x: np.ndarray, batch_size: int = 8192) -> PackedCodes:
        """Return the codes of embeddings ``[n, dim]`` of any number type, ``uint8 [n, ceil(bits / 8)]``."""
        rows = [pack(self.outputs(x[start : start + batch_size])) for start in range(0, len(x), batch_size)]
        return np.concatenate(rows) if rows else np.empty((0, code_bytes(self.bits)), np.uint8)

    @torch.inference_mode()
    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Return the raw outputs ℓ, ``float32 [n, bits]``, of embeddings ``[n, dim]`` of any type, without dropout."""
        inputs = torch.from_numpy(np.array(x, np.float32)).to(self.mean.device)
        training = self.training
        self.eval()
        try:
            return self(inputs).cpu().numpy()
        finally:
            self.train(training)

    @property
    def has_tuned_backbone(self) -> bool:
        """Return whether a backbone was fine-tuned with the model; it is stored in the model's folder."""
        return bool((self.metadata.get("backbone") or {}).get("tuned"))

    def columns_of(self, data: str | Path) -> dict[str, str]:
        """Return the columns by which ``lbhash.data.load_table`` reads the file of the training as the training did."""
        if self.metadata.get("data") != Path(data).name:
            return {}
        return {name: self.metadata[name] for name in ("embedding_column", "label_column") if name in self.metadata}

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the model by its weights, in the order of their names."""
        weights = sorted(self.state_dict().items())
        return fingerprint(*(part for name, tensor in weights for part in (name, tensor.cpu().numpy())))

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> str | None:
        """Write ``model.safetensors``, ``config.json`` and a model card; whole files, renamed into place.

        The configuration is written last and holds the fingerprint of the weights and its own checksum, so that loading
        the model finds out if a save was cut short, or the configuration is no longer the one that was saved.
        ``push_to_hub=True`` pushes the model to the Hub, under ``repo_id`` or the folder's name; the other arguments
        are then those of ``push_to_hub`` (``private``, ``token`` …).
        """
        target = Path(save_directory)
        check_replaces_ours(target, "save_directory", backbone=False)
        metadata = plain(self.metadata, "metadata")
        config: dict[str, Any] = {name: getattr(self, name) for name in ("dim", "bits", "hidden")}
        config["dropout"] = self.dropout.probability
        config["classifier"] = 0 if self.classifier is None else self.classifier.out_features
        if self.posterior is not None:
            config["posterior"] = self.posterior.config
        if self.neighborhood is not None:
            config["neighborhood"] = True
        config["metadata"] = {**metadata, "fingerprint": self.fingerprint()}
        embedding = f"an embedding of {self.dim} numbers"
        card = {
            "bits": self.bits,
            "code_bytes": code_bytes(self.bits),
            "facts": "\n".join(f"| {key} | {value} |" for key, value in metadata.items()),
            "what": f"an image, by way of {embedding}," if self.has_tuned_backbone else embedding,
            "given": "images" if self.has_tuned_backbone else "embeddings",
        }
        make_folder(target)
        with tempfile.TemporaryDirectory(dir=target, prefix=".saving-") as made:
            with naming(target, SafetensorError):
                super().save_pretrained(made, config=with_checksum(config), model_card_kwargs=card)
            files = sorted(Path(made).iterdir(), key=lambda file: (file.name == "config.json", file.name))
            for file in files:
                check_replaceable(target / file.name)
            for file in files:
                with replacing(target / file.name) as temporary:
                    file.replace(temporary)
        if not kwargs.pop("push_to_hub", False):
            return None
        more = {name: kwargs[name] for name in kwargs.keys() - {"repo_id", "config", "model_card_kwargs"}}
        return self.push_to_hub(kwargs.get("repo_id") or target.name, **more)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, config: dict[str, Any] | None = None, **kwargs: Any) -> HashModel:
        """Load all tensors from safetensors; checksum and fingerprint in the configuration must be right."""
        try:
            checked(config)
        except ValueError:
            raise ValueError(
                "config.json is damaged, was changed after the model was saved, or is of another version of lbhash; "
                "bring back the file as it was, or train the model again"
            ) from None
        folder = Path(model_id)
        given = {name: kwargs[name] for name in cls._hub_mixin_init_parameters if name in kwargs}
        with torch.random.fork_rng(devices=[]):  # the random weights of a new model must not change the caller's state
            if folder.is_dir():
                check_model_folder(folder)
                # The mixin would print on standard output that it loads from a folder.
                check_shapes(given, folder / "model.safetensors")
                model = cls(**given)
                load_weights(model, folder / "model.safetensors", strict=True)
            else:
                asked = {name: kwargs[name] for name in _OF_A_DOWNLOAD if name in kwargs}
                with suppress(EntryNotFoundError):  # which is refused below
                    check_shapes(given, Path(hf_hub_download(model_id, "model.safetensors", **asked)))
                model = super()._from_pretrained(model_id=model_id, **{**kwargs, "strict": True})
        written_with, found = model.metadata.pop("fingerprint", None), model.fingerprint()
        if written_with != found:
            raise ValueError(
                f"config.json was written with the weights {written_with} and model.safetensors holds {found}; "
                "a save was cut short: save the model again, or resume its training"
            )
        return model.eval()

    @classmethod
    def _load_as_pickle(cls, *args: Any, **kwargs: Any) -> Any:
        raise ValueError("the model has no model.safetensors; lbhash never loads pickles")


def check_metadata(metadata: Any) -> None:
    """Raise ``TypeError`` or ``ValueError`` unless what is read of a model's metadata has its usual form."""
    if not isinstance(metadata, dict):
        raise TypeError(f"metadata is {metadata!r}; it must be an object of names and values")
    backbone, classes = metadata.get("backbone"), metadata.get("classes", [])
    names = ("name", "fingerprint")
    if backbone and not (isinstance(backbone, dict) and all(isinstance(backbone.get(name), str) for name in names)):
        raise TypeError(f"metadata has the backbone {backbone!r}; it must have a name and a fingerprint")
    if not isinstance(classes, list) or not {type(label) for label in classes} <= {int, float, str, bool}:
        raise TypeError(f"metadata has the classes {str(classes)[:100]}; they must be a list of labels")
    if "label_columns" in metadata:
        check_int(metadata["label_columns"], "label_columns", 1)


def check_shapes(arguments: dict[str, Any], weights: Path) -> None:
    """Raise ``ValueError`` unless a model of these arguments has the tensors of a safetensors file.

    Both are compared by their shapes, without any memory: a configuration may ask for more than there is.
    """
    with torch.device("meta"):
        wanted = {name: list(tensor.shape) for name, tensor in HashModel(**arguments).state_dict().items()}
    with safe_open(weights, "pt") as stored:
        found = {name: stored.get_slice(name).get_shape() for name in stored.keys()}  # noqa: SIM118  # no mapping
    for name in sorted(wanted.keys() | found.keys()):
        ours, theirs = wanted.get(name, "no such tensor"), found.get(name, "no such tensor")
        if ours != theirs:
            said = f"config.json says {ours} and model.safetensors has {theirs}"
            raise ValueError(f"size mismatch for {name}: {said}; they are not of one model")


def check_model_folder(folder: str | Path, name: str = "model") -> Path:
    """Return the path of a model folder; raises ``ValueError`` if it is missing, incomplete or has a pickle."""
    path = Path(folder)
    if not path.is_dir():
        raise ValueError(f"{name} is {str(folder)!r}, and there is no such folder")
    pickles = sorted(file.name for file in path.iterdir() if file.suffix in PICKLES)
    if pickles:
        why = "lbhash loads safetensors only, because a pickle can run code: remove the file if you trust the rest"
        raise ValueError(f"{name} is {str(folder)!r}, which holds a pickle ({pickles[0]}); {why}")
    for file in ("config.json", "model.safetensors"):
        if not (path / file).is_file():
            raise ValueError(f"{name} is {str(folder)!r}, which has no {file}; it must be a folder that lbhash wrote")
    return path


def load_model(directory: str | Path, *, hub: bool = False, name: str = "model") -> HashModel:
    """Load a model folder or, if ``hub``, a model of the Hub (``user/name``); nothing is unpickled.

    Raises ``ValueError``, which calls the argument ``name``, if there is no such model, or it cannot be loaded.
    """
    if not hub or Path(directory).exists() or str(directory).count("/") != 1:
        check_model_folder(directory, name)
    try:
        return HashModel.from_pretrained(str(directory))
    except (AttributeError, KeyError, OSError, RuntimeError, SafetensorError, TypeError, ValueError) as error:
        raise ValueError(f"{name} is {str(directory)!r}, which could not be loaded: {one_line(error)}") from None
