"""Rules for the options of every command: which exclude or need each other, and their names in errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import typer
from typer.core import TyperCommand

from lbhash.cli.panels import arrange
from lbhash.training.settings import arguments

COME = "'digits' and 'characters' come with lbhash"
"""The end of an error about missing data."""


class Rule(NamedTuple):
    """A rule about parameters of a command; ``options`` and ``others`` are names separated by spaces.

    ``name=value`` means that the parameter has this value, typed or by default. The relations (``how``) are:

    - ``excludes``: with one of ``options``, none of ``others`` may be given.
    - ``takes only``: with one of ``options``, only ``others`` may be given.
    - ``needs``: with one of ``options``, one of ``others`` must be given.
    - ``or``: without any of ``options``, all of ``others`` must be given.

    An error about missing ``data`` names the data sets that come with lbhash.
    """

    options: str
    how: Literal["excludes", "takes only", "needs", "or"]
    others: str
    why: str


_IMAGES = " ".join(one.name for one in arguments(images=True) if one.name != "backbone")
_TABLES = "base query labels embedding_column label_column"
_UNSEEN = "data method draws share epochs head unseen"

_RAY = Rule("ray_address", "needs", "engine=ray", "it is the address of a Ray cluster")
_NEW_DATA = (
    Rule("backbone", "excludes", "encoder", "one embeds images, the other texts"),
    Rule("backbone", "excludes", _TABLES, "images are one file or folder with its own labels and splits"),
    Rule("encoder", "excludes", "embedding_column", "an encoder makes embeddings of the column of texts"),
    Rule("text_column", "needs", "encoder", "it is the column of what an encoder embeds"),
)
_CODES = (
    Rule(
        "codes", "takes only", "index out kind option vectors overwrite id_column upsert", "codes are taken as they are"
    ),
    Rule("codes", "or", "data model", "an index takes codes, or what a model makes of data"),
)
RULES: dict[str, tuple[Rule, ...]] = {
    "compare": _NEW_DATA,
    "train": (
        *_NEW_DATA,
        Rule("freeze", "needs", "backbone", "there is nothing to freeze"),
        Rule(_IMAGES, "needs", "backbone", "it is for a backbone that is fine-tuned"),
        Rule(_IMAGES, "excludes", "freeze", "it is for a backbone that is fine-tuned"),
        Rule("guidance_weight", "excludes", "pull=none", "there is no pull to weigh"),
    ),
    "tune": _NEW_DATA,
    "encode": (_RAY,),
    "evaluate": (
        Rule("protocol", "takes only", f"{_UNSEEN} bits top_k", "methods are trained on data, without codes"),
        Rule("neighbors", "takes only", "queries base rank bits rerank", "neighbors are found without labels"),
        Rule("rerank", "needs", "neighbors", "codes are ranked again by their embeddings"),
        Rule(_UNSEEN, "needs", "protocol", "codes are evaluated without a training"),
        Rule("protocol", "needs", "data", "methods are trained on data"),
        Rule("protocol", "or", "queries base", "an evaluation needs two files of codes"),
        Rule("engine=ray", "excludes", "ties=stable probe", "a cluster counts the base in parts"),
        _RAY,
    ),
    "search": (
        Rule("code image text", "or", "row", "a search has a query"),
        Rule("row", "excludes", "image text code", "a search has queries of one kind"),
        Rule("image", "excludes", "text code", "a search has queries of one kind"),
        Rule("text", "excludes", "code", "a search has queries of one kind"),
        Rule("code", "or", "model", "rows, images and texts need the model that encodes them"),
        Rule("backbone encoder", "needs", "model", "it embeds what the model encodes"),
        Rule("row", "needs", "data", "rows are those of a file"),
        Rule("data", "needs", "row", "its rows are the queries"),
        Rule("rerank", "excludes", "code", "a code has no real numbers to rank by"),
        Rule("radius", "excludes", "k rerank", "within it all codes are returned, by distance"),
        Rule("candidates", "needs", "rerank", "it says how many codes are ranked again"),
    ),
    "index build": _CODES,
    "index add": _CODES,
    "export": (
        Rule("encoder", "takes only", "as_json", "its folder gets the file"),
        Rule("encoder", "or", "model out", "an export takes a model, or an encoder of texts"),
    ),
    "prepare": (
        Rule("images", "needs", "kind=nuswide kind=lists", "it is the folder of paths in lists"),
        Rule("class_list", "needs", "kind=imagenet", "it lists classes of ImageNet"),
    ),
    "reproduce": (Rule("list_names", "or", "name", "there are several experiments"),),
    "serve": (
        Rule("backbone", "excludes", "encoder", "one embeds images, the other texts"),
        Rule("ssl_keyfile", "needs", "ssl_certfile", "a key goes with its certificate"),
    ),
}
"""The rules of each command."""


class Checked(TyperCommand):
    """A command that checks its rules, has panels in its help, and names options in errors as they are typed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params = arrange(self.params)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; ``ValueError`` with one line about an option that is given twice."""
        given = self.make_parser(ctx).parse_args(args=[*args])[2]
        for one in given:
            flag = getattr(one, "is_flag", False) and not one.secondary_opts
            if given.count(one) > 1 and not one.multiple and not flag:
                raise ValueError(f"{_as_typed(one)} is given twice; give it once")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; ``ValueError`` with one line about the first broken rule."""
        for rule in RULES.get(words_of(ctx), ()):
            if line := _Typed(ctx).broken(rule):
                raise ValueError(line)
        try:
            return super().invoke(ctx)
        except (TypeError, ValueError) as error:
            if (line := in_words_of(self.params, str(error))) != str(error):
                error.args = (line,)
            raise


def words_of(context: Any) -> str:
    """Return the words of a command, such as ``index build``, without the program's name."""
    if context is None or context.parent is None:
        return ""
    return f"{words_of(context.parent)} {context.info_name}".strip()


def _as_typed(option: Any) -> str:
    """Return an option as a user types it, such as ``--label-column`` or ``-k``, or an argument as DATA."""
    name = max(option.opts, key=len)
    return name if name.startswith("-") else name.upper()


_ARGUMENT = re.compile(
    r"(?<![\w'/.-])(?:"
    r"(?P<given>\w+)=(?:True\b|'(?P<value>\w+)')"  # overwrite=True, damaged='skip'
    r"|(?P<known>[a-z]+_\w+)(?![\w'.])"  # label_column, anywhere
    r"|(?:(?<=^)|(?<=; )|(?<=\band ))(?P<subject>[a-z][\w-]*)(?= (?:is|has|holds|names|gives) ))"  # out is …
)


def in_words_of(options: Iterable[Any], said: str) -> str:
    """Replace the Python arguments in a message by a command's options.

    ``options`` are the command's. An argument with several values may have its option's name plus an s. ``path`` in
    Python is the index that the command opens, or otherwise its output.
    """
    options = list(options)
    typed = {one.name: _as_typed(one) for one in options if max(one.opts, key=len).startswith("-")}
    if any(one.name == "index" for one in options):
        typed["path"] = "index"
    elif "out" in typed:
        typed["path"] = typed["out"]

    def word(match: re.Match[str]) -> str:
        name = (match["given"] or match["known"] or match["subject"]).replace("-", "_")
        option = typed.get(name) or typed.get(name.removesuffix("s"))
        return match[0] if option is None else f"{option} {match['value']}" if match["value"] else option

    return _ARGUMENT.sub(word, said)


class App(typer.Typer):
    """An application whose commands check their rules."""

    def command(self, *args: Any, **options: Any) -> Any:
        """Return the decorator of a command."""
        return super().command(*args, cls=Checked, **options)


class _Typed:
    """The values and names of a command's parameters as the user typed them."""

    def __init__(self, context: Any) -> None:
        self._values = {name: value for name, value in context.params.items() if name != "as_json"}
        sources = {name: context.get_parameter_source(name) for name in self._values}
        self.names = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
        self._shown = {one.name: _as_typed(one) for one in context.command.params}

    def broken(self, rule: Rule) -> str:
        """Return an error line if a rule is broken; otherwise ""."""
        given = [name for name in rule.options.split() if self._holds(name)]
        others = [name for name in rule.others.split() if self._is_known(name)]
        if rule.how == "or":
            missing = [name for name in others if not self._holds(name)]
            if given or not missing:
                return ""
            wanted = " and ".join(map(self._name, others))
            instead = " or ".join(map(self._name, rule.options.split()))
            said = f"{self._name(missing[0])} is missing; {rule.why}: give {wanted}, or {instead}"
            return f"{said}; {COME}" if missing[0] == "data" else said
        if not given:
            return ""
        if rule.how == "needs":
            if any(map(self._holds, others)):
                return ""
            wanted = " or ".join(self._name(name).replace("=", " ") for name in others)
            said = f"{self._said(given[0])}, and {self._said(others[0])}; {rule.why}"
            said += f": give {wanted}, or leave {self._name(given[0])} out"
            return f"{said}; {COME}" if others == ["data"] else said
        if rule.how == "takes only":
            others = [name for name in self.names if name not in others and name not in given]
        against = [name for name in others if self._holds(name)]
        if not against:
            return ""
        return f"{self._said(given[0])}, and {self._said(against[0])}; {rule.why}: leave one of the two out"

    def _is_known(self, name: str) -> bool:
        return name.partition("=")[0] in self._values

    def _holds(self, name: str) -> bool:
        name, has_value, value = name.partition("=")
        return self._values.get(name) == value if has_value else name in self.names

    def _name(self, name: str) -> str:
        name, equals, value = name.partition("=")
        shown = self._shown[name]
        if name in self.names and self._values[name] is False:
            shown = f"--no-{shown.removeprefix('--')}"
        return f"{shown}{equals}{value}"

    def _said(self, name: str) -> str:
        """Return the text "k is 3" for a message; for a flag, that it is given."""
        name = name.partition("=")[0]
        value, shown = self._values[name], self._shown[name]
        if isinstance(value, bool):
            return f"{self._name(name)} is given"
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        if values in ([], [None]):
            return f"{shown} is not given"
        return f"{shown} is {', '.join(repr(str(one)) if isinstance(one, (str, Path)) else str(one) for one in values)}"
