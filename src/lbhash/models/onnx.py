"""Export of models to ONNX, for engines that use neither PyTorch nor this library."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lbhash.codes import code_bytes, pack_outputs
from lbhash.codes.io import check_suffix
from lbhash.data.images.loading import preprocess
from lbhash.models.backbone import Backbone, pooled_output
from lbhash.models.backbone_files import check_backbone
from lbhash.models.encoder import Encoder, load_encoder
from lbhash.models.folder import own_backbone
from lbhash.models.hash_model import HashModel
from lbhash.utils.files import check_replaceable, replacing
from lbhash.utils.system import check_packages
from lbhash.utils.validation import check_int
from lbhash.utils.version import __version__

OPSET = 18  # the oldest version of ONNX's operators that PyTorch writes, so that most engines read it
LIMIT = 1e-4  # the allowed difference of a raw output, relative to the largest output or 1, whichever is more
MAX_BYTES = 2_000_000_000  # of weights: an ONNX file is a Protocol Buffers message, which must be below 2^31 bytes

_CHECKED_IMAGES = ((1, 64, 64), (3, 96, 72), (4, 80, 112))  # number, width and height of each batch
_CHECKED_ROWS = (1, 7, 248)  # number of embeddings in each batch


class CodeNetwork(nn.Module):
    """A hash model, with its backbone before it if there is one, that returns packed codes.

    ``forward`` takes ``[n, dim]``, or ``[n, 3, height, width]`` if there is a backbone, and returns codes, ``uint8 [n,
    ceil(bits / 8)]``, and raw outputs ℓ, ``float32 [n, bits]``.
    """

    byte_values: Tensor

    def __init__(self, model: HashModel, backbone: nn.Module | None = None) -> None:
        super().__init__()
        self.backbone, self.model = backbone, model
        bit = torch.arange(model.bits)
        values = torch.zeros(model.bits, code_bytes(model.bits))
        values[bit, bit // 8] = 2.0 ** (7 - bit % 8)
        self.register_buffer("byte_values", values)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return codes and raw outputs."""
        logits = self.model(inputs if self.backbone is None else pooled_output(self.backbone, inputs))
        # lbhash.codes.pack in operators that every engine has. The sums are whole numbers below 256, which are exact
        # in whatever type an engine multiplies matrices.
        return ((logits >= 0).float() @ self.byte_values).to(torch.uint8), logits


def export_model(
    model: str | Path, out: str | Path, *, backbone: str | Path | None = None, opset: int | None = None
) -> dict[str, Any]:
    """Write a model as an ONNX file, after checking with onnxruntime that its codes are the library's.

    The file takes ``embeddings``, ``float32 [n, dim]``; or, if a backbone is exported too, ``pixel_values``,
    ``float32 [n, 3, height, width]``, images after the backbone's preprocessing. It returns ``codes``,
    ``uint8 [n, ceil(bits / 8)]``, packed as ``lbhash.codes.pack`` does, and ``logits``, the raw outputs ℓ,
    ``float32 [n, bits]``. n is any number from 1 on; height and width are free unless the preprocessing fixes them. The
    file's
    metadata describe the codes: see ``docs/export.md``.

    Two engines sum in different orders. The file is written only if no ℓ of a check batch differs from the library's
    by more than ``LIMIT``, and every code is the packed signs of its own ℓ; else ``ValueError`` is raised.

    Args:
        model: a model folder. If it has a folder ``backbone``, that is its backbone.
        out: the file, which must end in ``.onnx``.
        backbone: folder or Hub id of a backbone to export too, instead of the model's own.
        opset: the version of ONNX's operators. If None, ``OPSET``.

    Returns:
        A description of the file and of the comparison: ``out``, ``bytes``, ``opset``, ``inputs`` and ``outputs``
        (name, type and shape of each), ``metadata``, ``onnxruntime`` (its version), ``rows`` (compared),
        ``largest_difference`` of logits and ``differing_bits``.
    """
    check_packages("export", "onnx", "onnx", "onnxscript", "onnxruntime")
    import onnx

    file = check_suffix(out, suffixes=(".onnx",))
    check_replaceable(file)
    opset = check_int(OPSET if opset is None else opset, "opset", OPSET, onnx.defs.onnx_opset_version())
    loaded = load_encoder(model)
    where = own_backbone(model) if backbone is None else backbone
    vision = None if where is None else Backbone.from_pretrained(where, device="cpu")
    if vision is not None:
        check_backbone(loaded, vision)
    network = CodeNetwork(HashModel.of(loaded), None if vision is None else vision.model).eval()
    check_size(network, "the weights of model and backbone")
    batches = _embedding_batches(loaded) if vision is None else _image_batches(vision)
    with replacing(file) as temporary:  # so that a file that cannot be written fails at once
        proto = _exported(network, batches, opset)
        describe(proto, _metadata(loaded, vision))
        temporary.write_bytes(proto.SerializeToString())
        compared = _compare(loaded, network, batches, temporary)
        size = temporary.stat().st_size
    return {
        "out": str(out),
        "bytes": size,
        "opset": opset,
        "inputs": _signature(proto.graph.input),
        "outputs": _signature(proto.graph.output),
        "metadata": {entry.key: entry.value for entry in proto.metadata_props},
        **compared,
    }


def check_size(network: nn.Module, what: str) -> None:
    """Raise ``ValueError`` if a network's weights are too many for an ONNX file."""
    size = sum(tensor.numel() * tensor.element_size() for tensor in network.state_dict().values())
    if size > MAX_BYTES:
        raise ValueError(f"{what} have {size:,} bytes; an ONNX file holds at most {MAX_BYTES:,}")


def _exported(network: CodeNetwork, batches: list[Tensor], opset: int) -> Any:
    """Return the network as an ``onnx.ModelProto``."""
    free = {0: "n"}
    if len({batch.shape[1:] for batch in batches}) > 1:
        free |= {2: "height", 3: "width"}
    name = "embeddings" if network.backbone is None else "pixel_values"
    what = "the model" if network.backbone is None else f"the backbone, a {type(network.backbone).__name__},"
    sizes = " for images of any size, as its preprocessing leaves them" if len(free) > 1 else ""
    fault = f"{what} could not be exported to ONNX{sizes}"
    return as_proto(network, {name: batches[1]}, ["codes", "logits"], free, opset, fault)


def as_proto(
    network: nn.Module, inputs: dict[str, Tensor], outputs: list[str], free: dict[int, str], opset: int, fault: str
) -> Any:
    """Return a network as an ``onnx.ModelProto`` with these names of inputs and outputs.

    ``free`` names the axes of every input whose length is not fixed. Raises ``ValueError``, which begins with
    ``fault``, if PyTorch cannot export it.
    """
    options: dict[str, Any] = {"input_names": [*inputs], "output_names": outputs, "dynamo": True, "verbose": False}
    shapes: Any = tuple(dict(free) for _ in inputs)
    if len(inputs) > 1:
        shapes = (shapes,)  # of the one argument, *inputs
    try:
        with _quiet():
            program = torch.onnx.export(
                network, tuple(inputs.values()), opset_version=opset, dynamic_shapes=shapes, **options
            )
    except torch.onnx.OnnxExporterError as error:
        raise ValueError(f"{fault}: {line_of(error.__cause__ or error)}") from None
    assert program is not None
    proto = program.model_proto
    written = next(entry.version for entry in proto.opset_import if not entry.domain)
    if written != opset:
        raise ValueError(f"opset is {opset}, which PyTorch {torch.__version__} does not write; it wrote {written}")
    return proto


def describe(proto: Any, metadata: dict[str, str]) -> None:
    """Add the metadata to the file, and remove the exporter's notes about the paths of the code."""
    import onnx

    graph = proto.graph
    for notes in (graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        notes.ClearField("metadata_props")
    proto.producer_name, proto.producer_version = "lbhash", __version__
    onnx.helper.set_model_props(proto, metadata)


def _metadata(model: Encoder, backbone: Backbone | None) -> dict[str, str]:
    """Return the metadata of the file, which describe its codes."""
    facts = {"lbhash.version": __version__, "lbhash.bits": str(model.bits), "lbhash.bit_order": "big"}
    facts["lbhash.model"] = model.fingerprint()
    if backbone is not None:
        facts["lbhash.backbone"] = backbone.fingerprint()
        facts["lbhash.preprocessing"] = json.dumps(backbone.preprocessing(), sort_keys=True, default=str)
    elif known := model.metadata.get("backbone"):
        facts["lbhash.backbone"] = known["fingerprint"]
    return facts


def _signature(values: Any) -> list[dict[str, Any]]:
    """Return name, type and shape of inputs or outputs; a free length is given by its name."""
    import onnx

    found = []
    for name, kind in ((value.name, value.type.tensor_type) for value in values):
        shape = [length.dim_param or length.dim_value for length in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        found.append({"name": name, "type": str(dtype), "shape": shape})
    return found


def _embedding_batches(model: Encoder) -> list[Tensor]:
    """Return batches of random embeddings with the mean and scale of those that the model was trained on."""
    rng = np.random.default_rng(0)
    noise = [rng.normal(size=(rows, model.dim)).astype(np.float32) for rows in _CHECKED_ROWS]
    return [torch.from_numpy(model.weights["mean"] + model.weights["scale"] * batch) for batch in noise]


def _image_batches(backbone: Backbone) -> list[Tensor]:
    """Return batches of preprocessed images; their sizes differ unless the preprocessing makes them equal."""
    from PIL import Image

    rng = np.random.default_rng(0)
    batches = []
    for count, width, height in _CHECKED_IMAGES:
        coarse = [Image.fromarray(values) for values in rng.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)]
        images = [image.resize((width, height), Image.Resampling.BICUBIC) for image in coarse]
        batches.append(preprocess(backbone.processor, images, backbone.name).float())
    return batches


def _compare(model: Encoder, network: CodeNetwork, batches: list[Tensor], file: Path) -> dict[str, Any]:
    """Run the file on batches of several lengths; raises ``ValueError`` if its outputs differ from the library's."""
    import onnxruntime

    version = str(onnxruntime.__version__)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4  # errors are also raised
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        found = [session.run(["codes", "logits"], {name: batch.numpy()}) for batch in batches]
    except Exception as error:  # onnxruntime has a dozen classes of errors
        raise ValueError(f"the exported model fails under onnxruntime {version}: {line_of(error)}") from None
    codes, logits = (np.concatenate(outputs) for outputs in zip(*found, strict=True))
    with torch.inference_mode():
        if network.backbone is not None:
            batches = [pooled_output(network.backbone, batch) for batch in batches]
        expected = np.concatenate([model.outputs(batch.numpy()) for batch in batches])
    limit = LIMIT * max(1.0, float(np.abs(expected).max()))
    largest = float(np.abs(logits - expected).max())
    of_what = f"of the exported model under onnxruntime {version}"
    if not largest <= limit:  # also refuses NaN
        far = f"up to {largest:.2g} from the library's ({limit:.2g} is allowed)"
        raise ValueError(f"the outputs {of_what} are {far}; the file is not written")
    if not np.array_equal(codes, pack_outputs(logits)):
        raise ValueError(f"the codes {of_what} are not the packed signs of its outputs; the file is not written")
    bits = int(np.unpackbits(codes ^ pack_outputs(expected)).sum())
    return {"onnxruntime": version, "rows": len(codes), "largest_difference": largest, "differing_bits": bits}


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's notes and warnings while the block runs."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        for logger in loggers:
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        yield


def line_of(error: BaseException) -> str:
    """Return the first line of an exception's message."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
