"""Rewrite Typer's errors as one line in the style of ``lbhash.utils.validation``."""

from __future__ import annotations

import re
from typing import Any

from lbhash.cli.rules import COME
from lbhash.utils.fields import wrong_field
from lbhash.utils.validation import did_you_mean

_TORCHRUN = "torchrun starts the processes: torchrun --nproc-per-node N -m -- lbhash train …"
GUESSES = {
    "--config": "type the options, or put them into the command of the service's unit or container",
    "--devices": _TORCHRUN,
    "--nodes": _TORCHRUN,
    "--columns": "--metadata names the columns that go with codes",
    "--threads": "taskset limits the cores; in Python, threads=N",
    "--token": "set LBHASH_READ_TOKEN and LBHASH_WRITE_TOKEN in the environment",
    "--validation": "--monitor holds out a tenth; in Python, validation=SHARE",
    "--warmup": "--schedule and --lr set the learning rate",
    "tune --resume": "a search goes on with the trials in the folder --out",
    "index info": "'lbhash info PATH' says what an index, a model or a file of codes is",
}
"""Hints for options and commands that do not exist; the key begins with a command if another one has the option."""
_NAMED = {
    "--data": ("compare", "train", "tune", "encode", "index build", "index add"),
    "--index": (*(f"index {name}" for name in ("add", "remove", "compact", "verify", "export")), "search", "serve"),
    "--model": ("export",),
}
for _option, _commands in _NAMED.items():
    GUESSES |= {f"{name} {_option}": f"type lbhash {name} {_option[2:].upper()}" for name in _commands}

_UNKNOWN = re.compile(r"No such (?:option: |command ')([\w-]+).*")
_MISSING = re.compile(r"Missing (\w+) '(.*?)'\..*")
_WRONG = re.compile(r"Invalid value for '(?:-\w / )?\[?(-{0,2}[\w-]+).*?': (.*?)\.?")
_EXTRA = re.compile(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)")
_CHOICE = re.compile(r"('.*') is not one of (.*)")
_KIND = re.compile(r"('.*') is not a valid (\w+).*")
_KINDS = {"int": "an integer", "integer": "an integer", "float": "a number", "boolean": "true or false"}


def usage_line(said: str, cause: Any, command: str = "") -> str:
    """Return one line for an error in the arguments; ``said`` is Typer's message.

    ``cause`` is the error's cause, and ``command`` the words of the command, such as ``index build``.

    >>> usage_line("Invalid value for '--recipe': 'papre' is not one of 'tuned', 'paper'.", None)
    "--recipe is 'papre'; it must be one of tuned, paper; did you mean paper?"
    >>> usage_line("No such option: --nodes", None).partition(";")[0]
    'there is no --nodes'
    """
    said = " ".join(said.replace("Value error, ", "").split())
    if unknown := _UNKNOWN.fullmatch(said):
        place = GUESSES.get(f"{command} {unknown[1]}") or GUESSES.get(unknown[1])
        return f"there is no {unknown[1]}; {place}" if place else said
    if extra := _EXTRA.fullmatch(said):
        return f"{extra[1]} stands without an option; write its name before it, and one value after each name"
    if missing := _MISSING.fullmatch(said):
        kind, name = missing[1], missing[2] if missing[1] == "option" else missing[2].upper()
        how = f"'lbhash {command} --help' says what it is" if kind == "option" else f"give it: lbhash {command} {name}"
        return f"{name} is missing; {how}" + (f"; {COME}" if name == "DATA" else "")
    wrong = _WRONG.fullmatch(said)
    if wrong is None:
        return said
    name, why = wrong.groups()
    if choice := _CHOICE.fullmatch(why):
        known = re.findall(r"'(.*?)'", choice[2])
        return f"{name} is {choice[1]}; it must be one of {', '.join(known)}{did_you_mean(choice[1][1:-1], known)}"
    if hasattr(cause, "errors"):  # Pydantic's: newer versions of Typer parse numbers with it
        return wrong_field(cause.errors()[0], name)
    if kind := _KIND.fullmatch(why):
        return f"{name} is {kind[1]}; it must be {_KINDS.get(kind[2], 'another value')}"
    return said
