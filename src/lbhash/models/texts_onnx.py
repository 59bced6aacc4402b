"""Run encoders of texts without PyTorch, from an ONNX file that ``lbhash export --encoder`` checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from hashlib import file_digest
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

from lbhash.utils.checksums import checked, with_checksum
from lbhash.utils.files import write_json
from lbhash.utils.fingerprint import fingerprint, sampled
from lbhash.utils.system import is_installed, usable_cores
from lbhash.utils.validation import refusing

FILE, FACTS = "onnx/model.onnx", "onnx/lbhash.json"
"""The ONNX file in a folder of sentence-transformers, and the file with facts about it."""

NEEDS = ("onnxruntime", "tokenizers")

_FORM, _BATCH = "lbhash encoder 1", 32
_FILES = (  # files that embeddings depend on
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_*_config.json",
    "special_tokens_map.json",
    "tokenizer*.json",
    "*.safetensors",
    "*/config.json",
    "*/*.safetensors",
    f"{FILE}*",
)


class OnnxModel:
    """An encoder's ONNX file with its tokenizer, pooling and prompts; its embeddings are those of the PyTorch model.

    ``facts`` are those that ``write_facts`` stored. ``file`` is used instead of the folder's ONNX file.
    """

    def __init__(self, folder: Path, facts: dict[str, Any], file: Path | None = None) -> None:
        self.folder, self.facts, self.file = folder, facts, file or folder / FILE

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return self.facts["dim"]

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the PyTorch model."""
        return self.facts["fingerprint"]

    def encode(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        """Return the embeddings ``float32 [n, dim]`` of texts, with the prompt for documents or for queries."""
        encodings = self.tokens(texts, query=query)
        made = np.empty((len(texts), self.dim), np.float32)
        order = np.argsort([len(one.ids) for one in encodings], kind="stable")
        for rows in np.split(order, range(_BATCH, len(order), _BATCH)):
            made[rows] = self._embedded([encodings[row] for row in rows])
        return made

    def tokens(self, texts: Sequence[str], *, query: bool = False) -> list[Any]:
        """Return the tokenizer's encodings of texts with their prompt, cut to the maximum length."""
        prompt = self.facts["prompts"]["query" if query else "document"]
        return self._tokenizer.encode_batch([prompt + text for text in texts])

    def _embedded(self, encodings: list[Any]) -> npt.NDArray[np.float32]:
        shape = (len(encodings), max(len(one.ids) for one in encodings))
        inputs = {"input_ids": np.full(shape, self.facts["pad_id"], np.int64)}
        inputs |= {name: np.zeros(shape, np.int64) for name in ("attention_mask", "token_type_ids")}
        for row, one in enumerate(encodings):
            for values, found in zip(inputs.values(), (one.ids, one.attention_mask, one.type_ids), strict=True):
                values[row, : len(found)] = found
        session, output = self._session
        taken = {one.name: inputs[one.name] for one in session.get_inputs()}
        (states,) = session.run([output], taken)
        return self._after(states, inputs["attention_mask"][..., None].astype(np.float32))

    def _after(self, states: npt.NDArray[np.float32], mask: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the result of the modules after the transformer for its outputs ``[n, tokens, d]``."""
        if self.facts["pooling"] == "cls":
            made = states[:, 0]
        else:
            made = (states * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1e-9)
        for step in self.facts["steps"]:
            if step == "normalize":
                made = made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)
                continue
            weights = self._weights[step["file"]]
            made = made @ weights["linear.weight"].T + weights.get("linear.bias", np.float32(0))
            made = np.tanh(made) if step["tanh"] else made
        return made

    @cached_property
    def _weights(self) -> dict[str, dict[str, npt.NDArray]]:
        from safetensors.numpy import load_file

        return {step["file"]: load_file(self.folder / step["file"]) for step in self.facts["steps"] if "file" in step}

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if self.facts["max_length"] is not None:
            tokenizer.enable_truncation(self.facts["max_length"])
        return tokenizer

    @cached_property
    def _session(self) -> tuple[Any, str]:
        """The file in onnxruntime, whose waiting threads sleep, and the name of the output to use."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = usable_cores()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4  # errors are also raised
        session = onnxruntime.InferenceSession(str(self.file), options, providers=["CPUExecutionProvider"])
        names = [one.name for one in session.get_outputs()]
        return session, next((one for one in ("last_hidden_state", "token_embeddings") if one in names), names[0])


def find_onnx(folder: Path, name: str) -> OnnxModel | None:
    """Return the encoder of a folder, called ``name`` in errors; None without its ONNX file or the packages to run it.

    Raises ``ValueError`` if the ONNX file is damaged, or does not belong to the folder's present files.
    """
    if not (folder / FACTS).is_file() or not can_run():
        return None
    again = f"make it again by: lbhash export --encoder {name!r}"
    with refusing(f"encoder is {name!r}, whose {FACTS} is damaged; {again}", ValueError, OSError):
        facts = checked(json.loads((folder / FACTS).read_text(encoding="utf-8")))
        if facts.get("format") != _FORM:
            raise ValueError(f"its format is not {_FORM!r}")
    now, then = _digests(folder), facts["files"]
    dense = {step["file"] for step in facts["steps"] if "file" in step}
    idle = {one for one in then if one.endswith(".safetensors")} - dense - now.keys()  # the ONNX file has these weights
    if differ := [one for one in sorted(now | then) if now.get(one) != then.get(one) and one not in idle]:
        said = f"{FACTS} is of another file than" if differ[0] == FILE else f"{FILE} does not belong to"
        raise ValueError(f"encoder is {name!r}, whose {said} its {differ[0]}; {again}")
    return OnnxModel(folder, facts)


def can_run() -> bool:
    """Return whether the packages that run an ONNX file are installed."""
    return all(map(is_installed, NEEDS))


def write_facts(folder: Path, facts: dict[str, Any]) -> None:
    """Store the facts about a folder's ONNX file, with checksums of the files that it belongs to."""
    write_json(folder / FACTS, with_checksum({"format": _FORM, **facts, "files": _digests(folder)}))


def _digests(folder: Path) -> dict[str, str]:
    """Return a checksum of each file that embeddings depend on; for weights, of a sample."""
    files = {one.relative_to(folder).as_posix() for name in _FILES for one in folder.glob(name) if one.is_file()}
    return {name: _digest(folder, name) for name in sorted(files)}


def _digest(folder: Path, name: str) -> str:
    if name.endswith(".safetensors"):
        return fingerprint(sampled(folder, [name]))
    with (folder / name).open("rb") as opened:
        return file_digest(opened, xxh3_128).hexdigest()
