"""The line for what Typer refuses, as ``lbhash.utils.validation`` says such things."""

from __future__ import annotations

import re
from typing import Any

from lbhash.cli.rules import COME
from lbhash.utils.fields import wrong_field
from lbhash.utils.validation import did_you_mean

_PREPARE = "'lbhash prepare KIND FOLDER --out FILE.parquet' makes Parquet of data sets in a layout of their own"
_TORCHRUN = "torchrun starts the processes: torchrun --nproc-per-node N -m -- lbhash train …"
_TREC = "docs/howto/other-codes.md makes runs for ir_measures in a few lines"
_TOKENS = "set LBHASH_READ_TOKEN and LBHASH_WRITE_TOKEN in the environment"
FORMER = {
    "--accumulate": "more processes make a larger batch; --precision bf16 saves memory",
    "--baselines": "they are measured unless --no-baselines is given",
    "--asymmetric": "rows, images and texts are ranked so; --hamming ranks by the bits that differ",
    "--batch-norm": "in Python, batch_norm='train'",
    "--columns": "--metadata names the columns that go with codes",
    "--class-list": "'lbhash prepare imagenet FOLDER --class-list FILE --out FILE.parquet' takes it",
    "--config": "type the options, or put them into the command of the service's unit or container",
    "--crop-scale": "in Python, augment=Augmentation(…) sets it",
    "--devices": _TORCHRUN,
    "--flip": "in Python, augment=Augmentation(…) sets it",
    "--guided": "--pull surrogate adds the guidance",
    "--images": _PREPARE,
    "--jitter": "in Python, augment=Augmentation(…) sets it",
    "--layout": _PREPARE,
    "--log": "logs/metrics.csv in the model's folder has a line for each epoch",
    "--max-body": "the limit is 16 MiB",
    "--max-pixels": "the limit is 25 million pixels",
    "--no-guided": "--pull none leaves the guidance out",
    "--nodes": _TORCHRUN,
    "--queue": "64 requests may wait",
    "--store-vectors": "--vectors says which vectors an index stores",
    "--shard-rows": "a part has 65,536 rows, or 4,096 images or texts",
    "--threads": "taskset limits the cores; in Python, threads=N",
    "--token": _TOKENS,
    "--tokens": f"{_TOKENS}; a proxy limits rates",
    "--run": _TREC,
    "--qrels": _TREC,
    "--write-run": _TREC,
    "--write-qrels": _TREC,
    "--deephash": "docs/howto/other-codes.md reads these files in a few lines",
    "--validation": "--monitor holds out a tenth; in Python, validation=SHARE",
    "--verify": "ask /ready, which answers 503 until the index is compared with its checksums",
    "--warmup": "--schedule and --lr set the learning rate",
    "reproduce --methods": "--method names them, such as csq,dch",
    "reproduce --runs": "the trainings are kept in the folder runs of --out",
    "tune --resume": "a search goes on with the trials in the folder --out",
    "centers --compare": "docs/centers.md compares the kinds",
    "centers --data": "give the number of --classes",
    "index info": "'lbhash info PATH' says what an index, a model or a file of codes is",
    "index bench": "'lbhash index build --kind ivf' prints what it finds",
    "index size": "docs/deploy.md has the bytes of a row",
}
"""What takes the place of options and commands that are gone; after the command's name if another still has it."""
_NAMED = {
    "--data": ("compare", "train", "tune", "encode", "index build", "index add"),
    "--index": (*(f"index {name}" for name in ("add", "remove", "compact", "verify", "export")), "search", "serve"),
    "--model": ("export",),
}
for _option, _commands in _NAMED.items():
    FORMER |= {
        f"{name} {_option}": f"it stands without a name: lbhash {name} {_option[2:].upper()}" for name in _commands
    }

_GONE = re.compile(r"No such (?:option: |command ')([\w-]+).*")
_MISSING = re.compile(r"Missing (\w+) '(.*?)'\..*")
_WRONG = re.compile(r"Invalid value for '(?:-\w / )?\[?(-{0,2}[\w-]+).*?': (.*?)\.?")
_EXTRA = re.compile(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)")
_CHOICE = re.compile(r"('.*') is not one of (.*)")
_KIND = re.compile(r"('.*') is not a valid (\w+).*")
_KINDS = {"int": "an integer", "integer": "an integer", "float": "a number", "boolean": "true or false"}


def usage_line(said: str, cause: Any, command: str = "") -> str:
    """Return one line for an error in the arguments; ``said`` is Typer's own.

    ``cause`` is what it was raised from, and ``command`` the words of the command, such as ``index build``.

    >>> usage_line("Invalid value for '--recipe': 'papre' is not one of 'tuned', 'paper'.", None)
    "--recipe is 'papre'; it must be one of tuned, paper; did you mean paper?"
    >>> usage_line("No such option: --nodes", None).partition(";")[0]
    '--nodes is gone'
    """
    said = " ".join(said.replace("Value error, ", "").split())
    if gone := _GONE.fullmatch(said):
        place = FORMER.get(f"{command} {gone[1]}") or FORMER.get(gone[1])
        return f"{gone[1]} is gone; {place}" if place else said
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
    if hasattr(cause, "errors"):  # of Pydantic, by which newer versions of Typer read numbers
        return wrong_field(cause.errors()[0], name)
    if kind := _KIND.fullmatch(why):
        return f"{name} is {kind[1]}; it must be {_KINDS.get(kind[2], 'another value')}"
    return said
