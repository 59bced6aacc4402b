"""The settings are written once: what the estimator, the command line and the stored model take of them."""

from __future__ import annotations

import dataclasses
import inspect
from itertools import product

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from lbhash.cli.app import app
from lbhash.hasher import Hasher
from lbhash.losses import Objective
from lbhash.training import TrainingArguments
from lbhash.training.defaults import _without_rest, completed
from lbhash.training.settings import arguments, described

OTHERS = {"bits": 12, "method": "dch", "head": "bits", "pull": "none", "epochs": 3, "seed": 9, "hidden": 8}
OTHERS |= {"dropout": 0.25, "recipe": "tuned", "centers": "best", "batch_size": 16, "lr": 0.02, "schedule": "cosine"}
OTHERS |= {"precision": "bf16", "backbone_lr": 0.5, "monitor": "ratio", "patience": 2, "validation": 0.25}
OTHERS |= {"options": {"gamma": 12.0, "lam": 0.2}, "guidance": {"weight": 0.5}}


def test_the_estimator_has_every_argument_with_its_default():
    parameters = inspect.signature(Hasher).parameters
    assert {name: one.default for name, one in parameters.items()} == dataclasses.asdict(TrainingArguments())
    assert Hasher().get_params() == dataclasses.asdict(TrainingArguments())
    assert [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD] == [
        "bits",
        "method",
        "epochs",
        "seed",
    ]


def test_the_docstring_lists_every_argument():
    text = inspect.getdoc(Hasher)
    for one in arguments():
        assert f"\n    {one.name}: {one.metadata['help'][:40]}" in text
    assert described("").count("\n") >= len(arguments()) - 1
    assert max(map(len, described().splitlines())) <= 120


def test_the_command_line_has_an_option_for_every_argument_but_those_of_python_alone():
    command = typer.main.get_command(app).commands["train"]
    options = {option.name: option for option in command.params}
    for one in arguments():
        if one.metadata.get("python"):
            assert one.name not in options
        else:
            assert f"--{one.name.replace('_', '-')}" in options[one.name].opts
            assert options[one.name].default == one.default


def test_a_stored_model_remembers_its_settings(blobs, tmp_path):
    hasher = Hasher(**OTHERS, threads=2, progress=True).fit(blobs.x, blobs.y)
    hasher.save_pretrained(tmp_path)
    assert Hasher.from_pretrained(tmp_path).get_params() == dataclasses.asdict(TrainingArguments(**OTHERS))
    stored = (tmp_path / "config.json").read_text()
    for name in ("threads", "device", "progress", "image_size"):  # of the machine, and of images
        assert f'"{name}"' not in stored


def test_choices_are_taken_in_upper_and_lower_case():
    given = TrainingArguments(head="Joined", recipe="PAPER", centers="Hadamard").checked()
    assert (given.head, given.recipe, given.centers) == ("joined", "paper", "hadamard")
    with pytest.raises(ValueError, match=r"^schedule is 'cosin'; .*; did you mean cosine\?$"):
        TrainingArguments(schedule="cosin").checked()


def test_every_choice_and_limit_is_checked():
    for one in arguments():
        if one.metadata["check"] is not None:
            with pytest.raises((TypeError, ValueError), match=f"^{one.name} is <object"):
                TrainingArguments(**{one.name: object()}).checked()
    checked = TrainingArguments(precision=32, patience=3, dropout=0).checked()
    assert (checked.precision, checked.monitor, checked.dropout) == ("32", "ratio", 0.0)


def test_a_recipe_fills_in_what_is_not_given():
    paper = completed(Hasher(lr=0.01, recipe="paper").checked())
    assert (paper.batch_size, paper.lr, paper.schedule, paper.dropout, paper.options) == (64, 0.01, "step", 0.5, None)
    tuned = completed(Hasher(16, "hashnet", recipe="tuned", lr=0.01, options={"continuation": 5.0}).checked())
    assert (tuned.batch_size, tuned.lr, tuned.schedule, tuned.dropout) == (256, 0.01, "cosine", 0.47)
    assert tuned.options == {"alpha": 3 / 16, "continuation": 5.0}
    assert tuned.guidance == {"weight": 0.042}


def test_recommended_options_may_follow_from_the_length():
    short, long = (completed(Hasher(bits, "dsdh", pull="none", recipe="tuned").checked()) for bits in (32, 64))
    assert (short.options, long.options) == ({"mu": 0.2, "nu": 0.012, "eta": 0.45}, {})
    assert (short.batch_size, short.dropout, long.dropout) == (128, 0.28, 0.0)
    assert completed(Hasher(64, "dch", recipe="tuned").checked()).options == {"gamma": 82.0, "lam": 0.0041}
    host = completed(Hasher(48, "dch", pull="none", recipe="tuned").checked())
    assert (host.batch_size, host.options) == (384, {"gamma": 15.0, "lam": 0.032})
    assert completed(Hasher(47, "dch", pull="none", recipe="tuned").checked()).batch_size == 256
    assert completed(Hasher(64, "hashnet", recipe="tuned").checked()).guidance == {"weight": 1.0}


@pytest.mark.parametrize(("rows", "batch"), [(None, 256), (5000, 256), (2047, 255), (640, 80), (3, 2)])
def test_few_rows_have_smaller_batches_than_the_tuned_recipe_s(rows, batch):
    assert completed(Hasher(method="csq_d", recipe="tuned").checked(), rows).batch_size == batch
    assert completed(Hasher(method="csq_d", recipe="tuned", batch_size=500).checked(), rows).batch_size == 500
    assert completed(Hasher(method="csq", recipe="paper").checked(), rows).batch_size == 64


@given(st.integers(40, 600), st.integers(8, 20), st.integers(0, 600))
def test_a_rest_of_few_rows_is_spread_over_the_other_batches(batch, number, rest):
    rows = number * batch + min(rest, batch - 1)
    found = _without_rest(batch, rows)
    sizes = [min(found, rows - start) for start in range(0, rows, found)]
    assert sum(sizes) == rows
    assert min(sizes) >= batch / 8
    assert batch <= found <= batch + batch / 8
    assert found == batch or len(sizes) == number


@pytest.mark.parametrize(
    ("method", "batch"),
    [("dch", 257), ("hashnet", 257), ("dtsh", 257), ("talr_d", 257), ("qsmi_d", 257), ("csq", 256), ("csq_d", 256)],
)
def test_a_method_that_weighs_pairs_has_no_small_last_batch(method, batch):
    pull = "surrogate" if method.endswith("_d") else "none"
    assert completed(Hasher(32, method, pull=pull, recipe="tuned").checked(), 10_000).batch_size == batch


class Custom(Objective):
    """A method without settings of its own."""


def test_without_a_recipe_a_method_has_its_own_settings_if_there_are_any_and_no_backbone_learns():
    assert vars(completed(Hasher().checked())) == vars(completed(Hasher(recipe="tuned").checked()))
    without = vars(completed(Hasher().checked(), images=True))
    assert without == vars(completed(Hasher(recipe="paper").checked()))
    assert completed(Hasher(method=Custom).checked()).recipe == "paper"
    assert completed(Hasher(recipe="tuned").checked(), images=True).batch_size == 256


@pytest.mark.parametrize(
    ("settings", "images", "head", "pull"),
    [
        ({}, False, "joined", "none"),
        ({"pull": "bits"}, False, "joined", "bits"),
        ({"unseen": 0.5}, False, "bits", "none"),
        ({"recipe": "paper"}, False, "bits", "surrogate"),
        ({}, True, "bits", "surrogate"),
        ({"method": "csq"}, False, "bits", "none"),
        ({"method": "csq", "head": "joined"}, False, "joined", "none"),
        ({"method": "csq", "guidance": {"weight": 1.0}}, False, "bits", "surrogate"),
        ({"method": "CSQ_D"}, False, "bits", "surrogate"),
        ({"method": "hashnet"}, False, "bits", "surrogate"),
        ({"method": "hashnet", "pull": "none"}, False, "bits", "none"),
        ({"method": Custom}, False, "bits", "none"),
    ],
)
def test_what_is_taken_where_head_and_pull_are_not_said(settings, images, head, pull):
    found = completed(Hasher(**settings).checked(), images=images)
    assert (found.head, found.pull) == (head, pull)


def test_what_a_method_does_not_name_is_as_in_the_recipe_paper():
    named = type("Named", (Custom,), {"recommended": {"none": {"lr": 0.002}}})
    assert vars(completed(Hasher(method=named, pull="none").checked(), 1000)) == {
        **vars(completed(Hasher(method=named, pull="none", recipe="paper").checked())),
        "recipe": "tuned",
        "lr": 0.002,
    }


def test_a_pull_may_have_the_settings_of_the_recipe_paper_at_one_length_or_at_all():
    paper, own = "paper", {"lr": 0.002, "options": {"a": 1}, "guidance": {"weight": 0.5}}
    lengths = {"recommended": {"none": paper, "surrogate": own}, "recommended_long": {"none": own, "surrogate": paper}}
    named = type("Named", (Custom,), lengths)
    for pull, bits in product(("none", "surrogate"), (32, 64)):
        found = vars(completed(Hasher(bits, named, pull=pull).checked(), 1000))
        as_paper = vars(completed(Hasher(bits, named, pull=pull, recipe="paper").checked())) | {"recipe": "tuned"}
        assert found == as_paper | (own if (pull == "surrogate") == (bits == 32) else {})


def test_a_method_without_settings_of_its_own_has_no_tuned_recipe():
    with pytest.raises(ValueError, match=r"^recipe is 'tuned', for which method 'custom' has no settings; it must be"):
        completed(Hasher(method=Custom, recipe="tuned").checked())
