"""The backbone that goes with a hash model: in the model's own folder, or where its name leads."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lbhash.utils.files import give_usual_rights

if TYPE_CHECKING:
    from lbhash.models.backbone import Backbone
    from lbhash.models.hash_model import HashModel

FOLDER = "backbone"
"""Where a model folder holds a backbone that was fine-tuned with its head: a folder of transformers like any other."""


def own_backbone(folder: str | Path | None) -> Path | None:
    """The backbone in a model folder; ``None`` where it holds none."""
    own = None if folder is None else Path(folder) / FOLDER
    return own if own is not None and own.is_dir() else None


def find_backbone(model: HashModel, folder: str | Path | None = None) -> str:
    """Where the backbone of a model is: in the model's folder, or where the name leads that the model remembers.

    Args:
        model: the hash model.
        folder: that it was loaded from, or its id on the Hub, from where its backbone is fetched.

    Raises:
        ValueError: the model remembers none, or the one that was fine-tuned with it is not there.
    """
    own = own_backbone(folder)
    if own is not None:
        return str(own)
    known = model.about.get("backbone")
    if not known:
        raise ValueError("the model was trained on embeddings and knows no backbone that makes them; say which")
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


def check_backbone(model: HashModel, backbone: Backbone) -> None:
    """Raise ``ValueError`` unless a hash model can take the embeddings of a backbone.

    Where the model remembers the backbone that it was trained with, it must be the same, by its fingerprint; a folder
    may have moved. Where it remembers none, the embeddings must be of the right length.
    """
    known = model.about.get("backbone")
    if known and known["fingerprint"] != backbone.fingerprint():
        raise ValueError(
            f"backbone is {backbone.name!r} ({backbone.fingerprint()}) and the model was trained with "
            f"{known['name']!r} ({known['fingerprint']}); weights and preprocessing must be the same"
        )
    if backbone.dim != model.dim:
        raise ValueError(
            f"backbone is {backbone.name!r}, whose embeddings have {backbone.dim} numbers; the model takes {model.dim}"
        )


def load_backbone(model: HashModel, folder: str | Path | None = None, *, device: str = "auto") -> Backbone:
    """The backbone of a model (``find_backbone``), which must be the one that it was trained with.

    Raises:
        ValueError: as of ``find_backbone``, ``Backbone.from_pretrained`` and ``check_backbone``.
    """
    from lbhash.models.backbone import Backbone

    found = find_backbone(model, folder)
    try:
        backbone = Backbone.from_pretrained(found, device=device)
    except ValueError as error:
        if own_backbone(folder) is not None:
            raise
        raise ValueError(f"{error} (the model remembers this one; say where it is now)") from None
    check_backbone(model, backbone)
    return backbone


def save_backbone(backbone: Backbone, folder: str | Path) -> None:
    """Write a backbone into a model folder, whole: beside its place, and then renamed.

    The model's configuration, which is written after it, has its fingerprint; a kill in between leaves a folder that
    says that its parts do not belong together.
    """
    target = Path(folder) / FOLDER
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".saving-") as temporary:
        made = Path(temporary) / "made"
        backbone.save_pretrained(made)
        for file in made.iterdir():
            give_usual_rights(file)
        if target.exists():
            target.rename(Path(temporary) / "old")
        made.rename(target)


def drop_backbone(folder: str | Path) -> None:
    """Remove a backbone that was fine-tuned with the model that a folder holds, before another model is written."""
    own = own_backbone(folder)
    if own is None:
        return
    try:
        about = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))["about"]
        tuned = about["backbone"]["tuned"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if tuned:
        shutil.rmtree(own)
