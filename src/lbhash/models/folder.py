"""Model folders: what they hold, and checks of a folder."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from lbhash.utils.paths import folder_with

FOLDER = "backbone"  # in a model folder; of the backbone that was fine-tuned with the model
PICKLES = {".bin", ".ckpt", ".joblib", ".pickle", ".pkl", ".pt", ".pth"}
_OURS = "a folder that lbhash wrote"
_WRITTEN = ("README.md", "config.json", "model.safetensors", "metrics.json")


def check_replaces_ours(folder: str | Path, name: str) -> None:
    """Raise ``ValueError`` if saving a model to a folder would replace files that lbhash did not write.

    A link, or a folder in a file's place, is refused when the file is written (``check_replaceable``).
    """
    places = [Path(folder) / one for one in _WRITTEN]
    there = [place.name for place in places if place.is_file() and not place.is_symlink()]
    if (own := own_backbone(folder)) is not None and not own.is_symlink():
        there.append(FOLDER)
    if there and not _holds_model(Path(folder)):
        what = f"which holds {', '.join(there)} and no model of lbhash"
        raise ValueError(f"{name} is {str(folder)!r}, {what}; nothing there is replaced, give another folder")


def _holds_model(folder: Path) -> bool:
    """Return whether a folder holds a model of ours: by its configuration or, if that is damaged, by its card."""
    with suppress(OSError, ValueError, RecursionError):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if isinstance(config, dict) and {"bits", "metadata"} <= config.keys():
            return True
    with suppress(OSError, ValueError):  # the card comes first, so a save that was cut short has it too
        return "\nlibrary_name: lbhash\n" in (folder / "README.md").read_text(encoding="utf-8")
    return False


def own_backbone(folder: str | Path | None) -> Path | None:
    """Return the folder of the backbone in a model folder; None if there is none."""
    own = None if folder is None else Path(folder) / FOLDER
    return own if own is not None and own.is_dir() else None


def check_model_folder(folder: str | Path, name: str = "model") -> Path:
    """Return the path of a model folder; raises ``ValueError`` if it is missing, incomplete or has a pickle."""
    path = folder_with(folder, name, _OURS)
    pickles = sorted(file.name for file in path.iterdir() if file.suffix in PICKLES)
    if pickles:
        why = "lbhash loads safetensors only, because a pickle can run code: remove the file if you trust the rest"
        raise ValueError(f"{name} is {str(folder)!r}, which holds a pickle ({pickles[0]}); {why}")
    return folder_with(folder, name, _OURS, "config.json", "model.safetensors")
