"""The panels of a long command's help, ordered by how often users need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lbhash.training.settings import OF_TRAINING, arguments

ADVANCED, IMAGES, TEXTS, MACHINE = "Advanced", "Images", "Texts", "Machine"
RESEARCH = "Research"
"""The panel of commands for research, which most users do not need."""
MOST = 15
"""A command with more options than this shows them in panels."""

_PANELS = {
    ADVANCED: "base query protocol split_seed damaged top_k option guidance_weight no_baselines centers percentile "
    "inter_percentile compare prune space normalize empty probe " + " ".join(OF_TRAINING),
    IMAGES: " ".join(["backbone", "freeze", *(one.name for one in arguments(images=True))]),
    TEXTS: "encoder text_column",
    MACHINE: "device seed precision workers engine ray_address resume",
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names.split()}
_NAMES = (
    "queries base query query_labels base_labels protocol split_seed damaged backbone "
    "out model codes labels label_column embedding_column bits method"
)
_FIRST = _NAMES.split()
_LAST = ("overwrite", "as_json")


def arrange(options: Iterable[Any]) -> list[Any]:
    """Order the options of a command by importance; if there are many, also assign panels."""
    found = list(options)
    for one in found:
        if one.param_type_name == "argument":
            one.metavar = one.name.upper()
    if len(found) <= MOST:
        return found
    main = {"base", "top_k"} if any(one.name == "queries" for one in found) else set()
    for one in found:
        if one.name not in main:
            one.rich_help_panel = one.rich_help_panel or _PANEL_OF.get(one.name)
    return sorted(found, key=_place)


def _place(option: Any) -> tuple[float, int]:
    """Return the sort key of an option: its panel (a command's own panels come second), and its place there."""
    if (panel := option.rich_help_panel) not in (None, *_PANELS):
        return 0.5, 0
    place = _FIRST.index(option.name) if option.name in _FIRST else len(_FIRST) + (option.name in _LAST)
    return [None, *_PANELS].index(panel), place
