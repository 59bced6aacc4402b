"""Encoders of texts: pretrained models of ``sentence-transformers`` that turn a text into an embedding.

With an ONNX file that ``lbhash export --encoder`` checked, they start without PyTorch and sentence-transformers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.data.texts import SORTED
from lbhash.models.backbone import HUB_ID, device_of, fingerprint_of, hub_folder, loading, unloadable, without_notes
from lbhash.models.texts_onnx import OnnxModel, can_run, find_onnx
from lbhash.utils.formatting import is_unicode, shown
from lbhash.utils.paths import folder_with
from lbhash.utils.progress import counted
from lbhash.utils.system import check_packages, has_gpu, is_installed
from lbhash.utils.validation import check_int

_PACKAGES = ("sentence_transformers", "transformers")


class TextEncoder:
    """A model of ``sentence-transformers``, or its ONNX file, with its own prompts and maximum length."""

    def __init__(self, model: Any, name: str, revision: str | None = None, *, device: str = "auto") -> None:
        self.model, self.name, self.revision, self.device = model, name, revision, device

    @classmethod
    def from_pretrained(
        cls, name_or_folder: str | Path, *, device: str = "auto", revision: str | None = None
    ) -> TextEncoder:
        """Load a model from a folder, or from a Hub id at ``revision`` (None for the newest).

        The folder's ONNX file is used if ``lbhash export --encoder`` checked it, unless device is a GPU. Nothing is
        unpickled, and no code of the repository is run. A GPU is used if there is one, unless device is "cpu". Raises
        ``ValueError`` if the model cannot be loaded.
        """
        name = check_encoder_name(name_or_folder)
        with unloadable("encoder", name):
            folder = hub_folder(name, revision)
        known = None if folder == Path(name) else folder.name
        found = find_onnx(folder, name) if device in ("auto", "cpu") else None
        return cls(found or load_by_torch(folder, name, device), name, known, device=device)

    def embed(
        self, texts: Iterable[str], at_once: int = SORTED, *, query: bool = False, progress: bool = False
    ) -> npt.NDArray[np.float32]:
        """Return the embeddings ``float32 [n, dim]`` of texts, in their order.

        Texts get the model's prompt for documents or, with ``query``, for queries. Texts beyond the model's maximum
        length are cut. ``at_once`` texts are sorted by length together.
        """
        total = len(texts) if isinstance(texts, Sequence) else None
        with counted("embedding", total, "texts", show=progress) as advance:
            rows = [np.empty((0, self.dim), np.float32)]
            for made in self.embed_batches(texts, at_once, query=query):
                rows.append(made)
                advance(len(made))
        return np.concatenate(rows)

    def embed_batches(
        self, texts: Iterable[str], at_once: int = SORTED, *, query: bool = False
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the embeddings of ``embed``, ``float32 [up to at_once, dim]`` at a time."""
        check_int(at_once, "at_once", 1)
        numbered = (_text(text, at) for at, text in enumerate(texts))
        while batch := list(islice(numbered, at_once)):
            yield self._encode(batch, query)

    def _encode(self, batch: list[str], query: bool) -> npt.NDArray[np.float32]:
        model = self._on_gpu if len(batch) >= SORTED and isinstance(self.model, OnnxModel) else self.model
        if isinstance(model, OnnxModel):
            return model.encode(batch, query=query)
        encode = model.encode_query if query else model.encode_document
        return encode(batch, show_progress_bar=False).astype(np.float32, copy=False)

    @cached_property
    def _on_gpu(self) -> Any:
        """The PyTorch model in place of an ONNX file, for many texts if there is a GPU; otherwise the ONNX model."""
        folder = self.model.folder
        can = has_gpu() and all(map(is_installed, _PACKAGES)) and any(folder.rglob("*.safetensors"))
        return load_by_torch(folder, self.name, self.device) if can and self.device != "cpu" else self.model

    @cached_property
    def dim(self) -> int:
        """Return the length of an embedding."""
        if isinstance(self.model, OnnxModel):
            return self.model.dim
        return int(self.model.encode(["a"], show_progress_bar=False).shape[1])

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the encoder by its weights, tokenizer and settings."""
        return self._fingerprint

    def metadata(self) -> dict[str, Any]:
        """Return the metadata that a hash model stores about its encoder (``check_backbone``)."""
        facts = {"name": self.name, "fingerprint": self.fingerprint(), "dim": self.dim, "kind": "text"}
        return facts if self.revision is None else {**facts, "revision": self.revision}

    @cached_property
    def _fingerprint(self) -> str:
        if isinstance(self.model, OnnxModel):
            return self.model.fingerprint
        modules = [(type(one).__name__, getattr(one, "pooling_mode", None)) for one in self.model]
        prompts = {name: prompt for name, prompt in self.model.prompts.items() if prompt}
        facts = {"modules": modules, "prompts": prompts, "most": self.model.max_seq_length}
        if config := getattr(getattr(self.model[0], "model", None), "config", None):
            facts["network"] = without_notes(config.to_diff_dict())
        return fingerprint_of(self.model, facts | {"tokenizer": _tokens_of(self.model.tokenizer)})


def load_by_torch(folder: Path, name: str, device: str) -> Any:
    """Load the PyTorch model of a folder; raises ``ValueError``, which calls it ``name``, if that fails."""
    check_packages(f"encoder {name!r}, which 'lbhash export --encoder' gave no ONNX file,", "text", *_PACKAGES)
    from sentence_transformers import SentenceTransformer

    with loading("encoder", name):
        options: Any = {"trust_remote_code": False, "model_kwargs": {"use_safetensors": True}}
        model = SentenceTransformer(str(folder), device=device_of(device), local_files_only=True, **options)
        model.float().eval().encode(["a"], show_progress_bar=False)  # some faults appear with the first text
    return model


def check_encoder_name(name_or_folder: str | Path) -> str:
    """Return the name as text; raises ``ValueError`` if it cannot name an encoder, without loading anything."""
    name = str(name_or_folder)
    if not can_run():
        check_packages("an encoder of texts", "text", *_PACKAGES)
    if Path(name).exists() or not HUB_ID.fullmatch(name):
        file = "config.json" if Path(name, "config.json").is_file() else "modules.json"
        folder_with(name, "encoder", "a folder of sentence-transformers, or a Hub id 'user/name'", file)
    return name


def _tokens_of(tokenizer: Any) -> Any:
    """Return what the tokens of a text depend on, without the lengths that each call sets."""
    fast = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(fast, "to_str"):
        return tokenizer.get_vocab()
    return {key: value for key, value in json.loads(fast.to_str()).items() if key not in ("padding", "truncation")}


def _text(text: Any, at: int) -> str:
    if not isinstance(text, str):
        raise TypeError(f"text {at} is {text!r}; it must be a text")
    if not is_unicode(text):
        raise ValueError(f"text {at} is {shown(text)}, which is not Unicode: it has half of a surrogate pair")
    return text
