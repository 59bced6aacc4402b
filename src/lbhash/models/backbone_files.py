"""The backbone of a hash model: in the model's own folder, or found by its name."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from lbhash.models.folder import FOLDER, own_backbone
from lbhash.utils.files import check_replaceable, give_usual_rights, make_folder, naming, sync

if TYPE_CHECKING:
    from lbhash.models.backbone import Backbone
    from lbhash.models.encoder import Encoder
    from lbhash.models.texts import TextEncoder


def find_backbone(model: Encoder, folder: str | Path | None = None) -> str:
    """Return the folder or Hub id of a model's backbone; ``folder`` is the folder or Hub id of the model.

    A backbone that was fine-tuned with the model is downloaded from the model's Hub id. Raises ``ValueError`` if it is
    missing, or if the model does not know its backbone.
    """
    own = own_backbone(folder)
    if own is not None:
        return str(own)
    known = model.metadata.get("backbone")
    if not known:
        raise ValueError("the model was trained on embeddings and does not know their backbone; name the backbone")
    if not model.has_tuned_backbone:
        return known["name"]
    if folder is None or Path(folder).is_dir():
        where = "it was not loaded from one" if folder is None else f"{str(folder)!r} has none"
        raise ValueError(
            f"the model's backbone was fine-tuned with it (from {known['name']!r}) and is in its folder {FOLDER!r}; "
            f"{where}"
        )
    from huggingface_hub import snapshot_download

    return str(Path(snapshot_download(str(folder), allow_patterns=[f"{FOLDER}/*"])) / FOLDER)


def check_backbone(model: Encoder, backbone: Backbone | TextEncoder) -> None:
    """Raise ``ValueError`` unless a backbone is the one that the model knows, with embeddings of the right length."""
    known, what = model.metadata.get("backbone"), "encoder" if model.takes_texts else "backbone"
    if known and known["fingerprint"] != backbone.fingerprint():
        alike = "weights, tokenizer and settings" if model.takes_texts else "weights and preprocessing"
        raise ValueError(
            f"{what} is {backbone.name!r} ({backbone.fingerprint()}) and the model was trained with "
            f"{known['name']!r} ({known['fingerprint']}); {alike} must be the same"
        )
    if backbone.dim != model.dim:
        found = f"whose embeddings have {backbone.dim} numbers"
        raise ValueError(f"{what} is {backbone.name!r}, {found}; the model takes {model.dim}")


def load_backbone(
    model: Encoder, folder: str | Path | None = None, *, name: str | Path | None = None, device: str = "auto"
) -> Backbone | TextEncoder:
    """Load the backbone, of images or texts, that a model was trained with, from ``name`` or its known place."""
    found = str(name or find_backbone(model, folder))
    try:
        backbone: Backbone | TextEncoder
        if model.takes_texts:
            from lbhash.models.texts import TextEncoder

            revision = model.metadata["backbone"].get("revision") if name is None else None
            backbone = TextEncoder.from_pretrained(found, device=device, revision=revision)
        else:
            from lbhash.models.backbone import Backbone

            backbone = Backbone.from_pretrained(found, device=device)
    except ValueError as error:
        if name is not None or own_backbone(folder) is not None:
            raise
        what = "encoder" if model.takes_texts else "backbone"
        how = f"say where it is now by {what}='FOLDER'"
        raise ValueError(f"{error} (the model was trained with this {what}; {how})") from None
    check_backbone(model, backbone)
    return backbone


def save_backbone(backbone: Backbone, folder: str | Path) -> None:
    """Write a backbone into a model folder: first under a temporary name, then renamed.

    The model's configuration is written later and has its fingerprint, so that an interrupted save is noticed.
    """
    target = Path(folder) / FOLDER
    make_folder(target.parent)
    if target.is_symlink():
        check_replaceable(target)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".saving-") as temporary:
        made = Path(temporary) / "made"
        with naming(target, SafetensorError):
            backbone.save_pretrained(made)
        for file in made.iterdir():
            give_usual_rights(file)
            sync(file)
        sync(made)
        if target.exists():
            target.rename(Path(temporary) / "old")
        made.rename(target)
        sync(target.parent)


def drop_backbone(folder: str | Path) -> None:
    """Remove a backbone that was fine-tuned with the model in a folder, before another model is written there."""
    own = own_backbone(folder)
    if own is None:
        return
    try:
        config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        tuned = config["metadata"]["backbone"]["tuned"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if tuned:
        if own.is_symlink():
            check_replaceable(own)
        shutil.rmtree(own)
