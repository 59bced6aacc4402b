"""The line for what Typer refuses, as ``lbhash.utils.validation`` says such things."""

from __future__ import annotations

import re
from typing import Any

from lbhash.utils.fields import wrong_field
from lbhash.utils.validation import did_you_mean

FORMER = {
    "--layout": "write the images as Parquet first: lbhash prepare KIND FOLDER --out FILE.parquet",
    "--class-list": "lbhash prepare imagenet FOLDER --class-list FILE --out FILE.parquet takes it",
    "--guided": "write the method with _d, such as csq_d, or --pull surrogate",
    "--no-guided": "write --pull none",
    "--devices": "start the processes with torchrun: torchrun --nproc-per-node 4 -m lbhash train …",
    "--nodes": "start the machines with torchrun: torchrun --nnodes 2 --nproc-per-node 4 -m lbhash train …",
    "--trec": "ir_measures scores ranked lists; docs/howto/other-codes.md shows how",
    "bench": "time lbhash search on your queries; docs/deploy.md has the sizes",
    "size": "docs/deploy.md has the bytes of a row",
}
"""What takes the place of options and commands that are gone."""

_GONE = re.compile(r"No such (?:option: |command ')([\w-]+).*")
_WRONG = re.compile(r"Invalid value for '(?:-\w / )?-{0,2}([\w-]+).*?': (.*?)\.?")
_EXTRA = re.compile(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)")
_CHOICE = re.compile(r"('.*') is not one of (.*)")
_KIND = re.compile(r"('.*') is not a valid (\w+).*")
_KINDS = {"int": "an integer", "integer": "an integer", "float": "a number", "boolean": "true or false"}


def usage_line(said: str, cause: Any) -> str:
    """Return one line for an error in the arguments; ``said`` is Typer's own, and ``cause`` what it was raised from.

    >>> usage_line("Invalid value for '--recipe': 'papre' is not one of 'tuned', 'paper'.", None)
    "recipe is 'papre'; it must be one of tuned, paper; did you mean paper?"
    >>> usage_line("No such option: --nodes", None).partition(";")[0]
    '--nodes is gone'
    """
    said = " ".join(said.replace("Value error, ", "").split())
    if (gone := _GONE.fullmatch(said)) and gone[1] in FORMER:
        return f"{gone[1]} is gone; {FORMER[gone[1]]}"
    if extra := _EXTRA.fullmatch(said):
        return f"{extra[1]} stands without an option; write its name before it, and one value after each name"
    wrong = _WRONG.fullmatch(said)
    if wrong is None:
        return said
    name, why = wrong.groups()
    if choice := _CHOICE.fullmatch(why):
        known = re.findall(r"'(.*?)'", choice[2])
        return f"{name} is {choice[1]}; it must be one of {', '.join(known)}{did_you_mean(choice[1][1:-1], known)}"
    if hasattr(cause, "errors"):  # of Pydantic, by which newer versions of Typer read numbers
        return wrong_field(cause.errors()[0], name)
    if kind := _KIND.fullmatch(why):
        return f"{name} is {kind[1]}; it must be {_KINDS.get(kind[2], 'another value')}"
    return said
