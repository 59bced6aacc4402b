"""Export of encoders of texts to ONNX: they then start without PyTorch and sentence-transformers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from lbhash.models.backbone import hub_folder, unloadable
from lbhash.models.onnx import OPSET, as_proto, check_size, describe, line_of
from lbhash.models.texts import TextEncoder, check_encoder_name, load_by_torch
from lbhash.models.texts_onnx import FILE, NEEDS, OnnxModel, write_facts
from lbhash.utils.files import replacing
from lbhash.utils.system import check_packages
from lbhash.utils.validation import refusing

LEAST = 0.9999
"""The least cosine of an embedding with that of the PyTorch model."""

_KEPT = "the encoder stays with PyTorch (if another program wrote the file, remove it and export again)"
_ANY = 1 << 20  # tokens; transformers calls a larger number unlimited
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_TEXTS = (
    "a",
    "How late is the train?",
    " UPPER case,  two spaces ",
    "line\nbreak\tand tab",
    "Ça coûte 5,50 €, à peu près; naïve façade",
    "電車は何時に着きますか",
    "Поезд опаздывает, Zug verspätet: ½ ﬁ ™",
    "https://example.org/a_b?c=1&d=2 #tag @name 😀",
    "[CLS] <s> [MASK] </s>",
    "",
)
_WORDS = ("time", "of", "Arrival", "uncertainty", "2", "is", "not", "yet", "known,")


class Transformer(nn.Module):
    """The transformer of an encoder: ids of tokens ``[n, tokens]`` and masks in, ``[n, tokens, d]`` out."""

    def __init__(self, model: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the last hidden state."""
        return self.model(**dict(zip(self.names, inputs, strict=True))).last_hidden_state


def export_encoder(encoder: str | Path) -> dict[str, Any]:
    """Write or check the ONNX file of a sentence-transformers folder, so that lbhash uses it.

    The file, ``onnx/model.onnx``, returns the last hidden state, like those of sentence-transformers. Later steps,
    prompts and checksums are in ``onnx/lbhash.json``. A file that another program wrote is checked and kept.

    Raises ``ValueError`` if lbhash cannot compute a module of the encoder, tokens differ, or under onnxruntime an
    embedding's cosine with the PyTorch model's is below ``LEAST``.

    Returns:
        ``out``, its ``bytes``, how many ``texts`` were compared, their ``least_cosine``, and the ``fingerprint``.
    """
    check_packages("export", "onnx", "onnx", "onnxscript", *NEEDS)
    name = check_encoder_name(encoder)
    with unloadable("encoder", name):
        folder = hub_folder(name)
    original = TextEncoder(load_by_torch(folder, name, "cpu"), name)
    facts = {"fingerprint": original.fingerprint(), "dim": original.dim, **_facts(original.model, folder, name)}
    with _file(original.model, folder, name) as file:
        texts, cosine = _compare(original, OnnxModel(folder, facts, file), name)
    write_facts(folder, facts)
    file, found = folder / FILE, facts["fingerprint"]
    return {
        "out": str(file),
        "bytes": file.stat().st_size,
        "texts": texts,
        "least_cosine": cosine,
        "fingerprint": found,
    }


@contextmanager
def _file(model: Any, folder: Path, name: str) -> Iterator[Path]:
    """Yield the folder's ONNX file if another program wrote it; else a new one, which is kept if the block succeeds."""
    import onnx

    file = folder / FILE
    if file.exists():
        with refusing(f"encoder is {name!r}, whose {FILE} cannot be read; remove it and export again", Exception):
            kept = onnx.load(str(file), load_external_data=False).producer_name != "lbhash"
        if kept:
            yield file
            return
    transformer = model[0].model
    fault = f"encoder is {name!r}, a {type(transformer).__name__}, which could not be exported to ONNX"
    check_size(transformer, f"the weights of the encoder {name!r}")
    features = model.preprocess(["how late is it", "a longer text than the other"])
    inputs = {one: features[one] for one in _INPUTS if one in features}
    with replacing(file) as temporary:
        network, free = Transformer(transformer, [*inputs]).eval(), {0: "n", 1: "tokens"}
        proto = as_proto(network, inputs, ["last_hidden_state"], free, OPSET, fault)
        describe(proto, {"lbhash.encoder": TextEncoder(model, name).fingerprint()})
        temporary.write_bytes(proto.SerializeToString())
        yield temporary


def _facts(model: Any, folder: Path, name: str) -> dict[str, Any]:
    """Return the facts for an ``OnnxModel``; raises ``ValueError`` if lbhash cannot compute a module itself."""
    kinds = [type(one).__name__ for one in model]
    said = f"encoder is {name!r}, whose"
    if kinds[:2] != ["Transformer", "Pooling"] or not {*kinds[2:]} <= {"Dense", "Normalize"}:
        may_be = "lbhash exports Transformer and Pooling, then Dense and Normalize"
        raise ValueError(f"{said} modules are {', '.join(kinds)}; {may_be}")
    prompts = {"query": _prompt(model, "query"), "document": _prompt(model, "document", "passage", "corpus")}
    pooling = model[1].pooling_mode
    if pooling not in ("mean", "cls") or not (model[1].include_prompt or not any(prompts.values())):
        without = "" if model[1].include_prompt else " without the prompt"
        raise ValueError(f"{said} pooling is {pooling!r}{without}; lbhash exports 'mean' and 'cls', with the prompt")
    if not (folder / "tokenizer.json").is_file():
        raise ValueError(f"{said} folder has no tokenizer.json; save it by a newer sentence-transformers")
    steps = ["normalize" if kind == "Normalize" else None for kind in kinds[2:]]
    tokenizer = model[0].tokenizer
    return {
        "prompts": prompts,
        "max_length": model.max_seq_length if (model.max_seq_length or _ANY) < _ANY else None,
        "pad_id": int(tokenizer.pad_token_id or 0),
        "pooling": pooling,
        "steps": [step or _dense(model, at, folder, said) for at, step in enumerate(steps, 2)],
    }


def _dense(model: Any, at: int, folder: Path, said: str) -> dict[str, Any]:
    """Return the facts of the Dense module at a position."""
    module = model[at]
    activation = type(module.activation_function).__name__
    own_names = (module.module_input_name, module.module_output_name) != ("sentence_embedding",) * 2
    if activation not in ("Identity", "Tanh") or module.use_residual or own_names:
        raise ValueError(f"{said} Dense has {activation}, a residual or other names; lbhash exports Identity and Tanh")
    file = f"{json.loads((folder / 'modules.json').read_text(encoding='utf-8'))[at]['path']}/model.safetensors"
    if not (folder / file).is_file():
        raise ValueError(f"{said} Dense has no {file}; save it by a newer sentence-transformers")
    return {"file": file, "tanh": activation == "Tanh"}


def _prompt(model: Any, *names: str) -> str:
    """Return the prompt that sentence-transformers uses: that of the first known name, or the default."""
    found = next((one for one in names if one in model.prompts), model.default_prompt_name)
    return model.prompts.get(found) or ""


def _compare(original: TextEncoder, made: OnnxModel, name: str) -> tuple[int, float]:
    """Return how many texts were compared, and the least cosine; raises ``ValueError`` unless all are alike."""
    longest = made.facts["max_length"] or 400
    lengths = [2, 7, 30, 100, min(longest, 400)]
    texts = [*_TEXTS, *(" ".join(_WORDS[at % len(_WORDS)] for at in range(length)) for length in lengths)]
    least = 1.0
    for query in (False, True):
        prompt = made.facts["prompts"]["query" if query else "document"]
        for text in (*texts, f"{texts[-1]} " * (2 + longest // 400)):
            (ids,) = original.model.preprocess([prompt + text])["input_ids"].tolist()
            if ids != made.tokens([text], query=query)[0].ids:
                raise ValueError(f"encoder is {name!r}, whose tokenizer.json gives {text[:40]!r} other tokens; {_KEPT}")
        wanted = np.concatenate(list(original.embed_batches(texts, query=query))).astype(np.float64)
        try:
            found = made.encode(texts, query=query)
        except Exception as error:  # onnxruntime has a dozen classes of errors
            raise ValueError(f"{made.file} fails under onnxruntime: {line_of(error)}; {_KEPT}") from None
        lengths_of = np.linalg.norm(wanted, axis=1) * np.linalg.norm(found, axis=1)
        least = min(least, float(((wanted * found).sum(axis=1) / lengths_of).min()))
    if not least >= LEAST:  # also refuses NaN
        raise ValueError(
            f"encoder is {name!r}, and the embeddings by its {FILE} have a cosine of {least:.4f} with PyTorch's, where "
            f"{LEAST} is needed; {_KEPT}"
        )
    return 2 * len(texts), least
