"""The settings are written once: what the estimator, the command line and the stored model take of them."""

from __future__ import annotations

import inspect
import re
import sys
from itertools import product

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from lbhash import Hasher, TrainingArguments
from lbhash.cli.app import app
from lbhash.losses import Objective
from lbhash.training import Settings
from lbhash.training.defaults import _without_rest, completed
from lbhash.training.settings import OF_TRAINING, arguments, described, grouped, side_by_side

OTHERS = {"bits": 12, "method": "dch", "head": "bits", "pull": "none", "epochs": 3, "seed": 9, "hidden": 8}
OTHERS |= {"dropout": 0.25, "recipe": "tuned", "centers": "best", "batch_size": 16, "lr": 0.02, "schedule": "cosine"}
OTHERS |= {"precision": "bf16", "backbone_lr": 0.5, "monitor": "ratio", "patience": 2, "validation": 0.25}
OTHERS |= {"options": {"gamma": 12.0, "lam": 0.2}, "guidance": {"weight": 0.5}}


def test_the_estimator_has_every_argument_with_its_default():
    parameters = inspect.signature(Hasher).parameters
    inner = inspect.signature(TrainingArguments).parameters
    defaults = {name: one.default for name, one in [*parameters.items(), *inner.items()]}
    assert defaults == {**vars(Settings()), "training": None}
    params = {name.removeprefix("training__"): value for name, value in Hasher().get_params().items()}
    assert params == {**vars(Settings()), "training": None}
    assert Hasher().get_params(deep=False).keys() == parameters.keys()
    assert [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD] == ["bits"]
    assert not any(one.kind is one.POSITIONAL_OR_KEYWORD for one in inner.values())


def test_settings_are_grouped_and_put_side_by_side():
    assert vars(side_by_side(Hasher(**grouped(**OTHERS)))) == vars(Settings(**OTHERS))
    assert vars(side_by_side(Hasher())) == vars(Settings())
    with pytest.raises(TypeError, match=r"^training is \{'lr': 1\}; it must be TrainingArguments, such as "):
        side_by_side(Hasher(training={"lr": 1}))


def test_params_of_the_training_are_set_by_name_and_not_in_another_hasher():
    shared = TrainingArguments(lr=0.1)
    one, other = Hasher(training=shared), Hasher(training=shared)
    assert one.set_params(training__batch_size=8, bits=4) is one
    assert (one.bits, one.training, other.training) == (4, TrainingArguments(lr=0.1, batch_size=8), shared)
    assert Hasher().set_params(training__lr=0.5).training == TrainingArguments(lr=0.5)
    assert one.get_params()["training__batch_size"] == 8
    copy = clone(one)
    assert copy.training == one.training
    assert copy.get_params() == one.get_params()


@pytest.mark.parametrize(
    ("made", "name", "right"),
    [
        (Hasher, "random_state", "seed"),
        (Hasher, "n_bits", "bits"),
        (Hasher, "nbits", "bits"),
        (Hasher, "code_size", "bits"),
        (Hasher, "verbose", "progress"),
        (Hasher, "n_epochs", "epochs"),
        (Hasher, "max_iter", "epochs"),
        (Hasher, "model", "method"),
        (Hasher, "epoch", "epochs"),
        (Hasher, "learning_rate", "training=TrainingArguments(lr=…)"),
        *((Hasher, name, f"training=TrainingArguments({name}=…)") for name in OF_TRAINING),
        (TrainingArguments, "learning_rate", "lr"),
        (TrainingArguments, "bits", "Hasher(bits=…)"),
        (TrainingArguments, "num_train_epochs", "Hasher(epochs=…)"),
        (TrainingArguments, "batchsize", "batch_size"),
        (Hasher().set_params, "random_state", "seed"),
        (Hasher().set_params, "lr", "training__lr"),
        (Hasher().set_params, "learning_rate", "training__lr"),
        (Hasher().set_params, "training__lrs", "training__lr"),
    ],
)
def test_a_guess_is_answered_with_the_right_name(made, name, right):
    with pytest.raises(
        (TypeError, ValueError), match=rf"^'{name}' is no setting of \w+; did you mean {re.escape(right)}\?$"
    ):
        made(**{name: 1})


def test_a_setting_without_its_name_is_refused():
    with pytest.raises(TypeError, match=r"^Hasher has 2 settings without a name; it must be at most 1 \(bits\), name"):
        Hasher(*(8, "csq"))


def test_the_docstring_lists_every_argument():
    text = inspect.getdoc(Hasher)
    inner = inspect.getdoc(TrainingArguments)
    for one in arguments():
        assert f"\n    {one.name}: {one.metadata['help'][:40]}" in (inner if one.name in OF_TRAINING else text)
    assert max(map(len, described(arguments()).splitlines())) <= 120


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="each argument has a line of its own there")
def test_help_fits_on_two_screens(python_script):
    script = "import pydoc, lbhash; print(pydoc.plain(pydoc.render_doc(lbhash.Hasher)))"
    assert len(python_script(script).splitlines()) <= 121  # which is 120, and print's own


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
    hasher = Hasher(**grouped(**OTHERS, threads=2, progress=True)).fit(blobs.x, blobs.y)
    hasher.save_pretrained(tmp_path)
    assert vars(side_by_side(Hasher.from_pretrained(tmp_path))) == vars(Settings(**OTHERS))
    stored = (tmp_path / "config.json").read_text()
    for name in ("threads", "device", "progress", "image_size"):  # of the machine, and of images
        assert f'"{name}"' not in stored


def test_choices_are_taken_in_upper_and_lower_case():
    given = Settings(head="Joined", recipe="PAPER", centers="Hadamard").checked()
    assert (given.head, given.recipe, given.centers) == ("joined", "paper", "hadamard")
    with pytest.raises(ValueError, match=r"^schedule is 'cosin'; .*; did you mean cosine\?$"):
        Settings(schedule="cosin").checked()


def test_every_choice_and_limit_is_checked():
    for one in arguments():
        if one.metadata["check"] is not None:
            with pytest.raises((TypeError, ValueError), match=f"^{one.name} is <object"):
                Settings(**{one.name: object()}).checked()
    checked = Settings(precision=32, patience=3, dropout=0).checked()
    assert (checked.precision, checked.monitor, checked.dropout) == ("32", "ratio", 0.0)


def test_a_recipe_fills_in_what_is_not_given():
    paper = completed(Settings(lr=0.01, recipe="paper").checked())
    assert (paper.batch_size, paper.lr, paper.schedule, paper.dropout, paper.options) == (64, 0.01, "step", 0.5, None)
    tuned = completed(
        Settings(bits=16, method="hashnet", recipe="tuned", lr=0.01, options={"continuation": 5.0}).checked()
    )
    assert (tuned.batch_size, tuned.lr, tuned.schedule, tuned.dropout) == (256, 0.01, "cosine", 0.47)
    assert tuned.options == {"alpha": 3 / 16, "continuation": 5.0}
    assert tuned.guidance == {"weight": 0.042}


def test_recommended_options_may_follow_from_the_length():
    short, long = (
        completed(Settings(bits=bits, method="dsdh", pull="none", recipe="tuned").checked()) for bits in (32, 64)
    )
    assert (short.options, long.options) == ({"mu": 0.2, "nu": 0.012, "eta": 0.45}, {})
    assert (short.batch_size, short.dropout, long.dropout) == (128, 0.28, 0.0)
    assert completed(Settings(bits=64, method="dch", recipe="tuned").checked()).options == {
        "gamma": 82.0,
        "lam": 0.0041,
    }
    host = completed(Settings(bits=48, method="dch", pull="none", recipe="tuned").checked())
    assert (host.batch_size, host.options) == (384, {"gamma": 15.0, "lam": 0.032})
    assert completed(Settings(bits=47, method="dch", pull="none", recipe="tuned").checked()).batch_size == 256
    assert completed(Settings(bits=64, method="hashnet", recipe="tuned").checked()).guidance == {"weight": 1.0}


@pytest.mark.parametrize(("rows", "batch"), [(None, 256), (5000, 256), (2047, 255), (640, 80), (3, 2)])
def test_few_rows_have_smaller_batches_than_the_tuned_recipe_s(rows, batch):
    assert completed(Settings(method="csq_d", recipe="tuned").checked(), rows).batch_size == batch
    assert completed(Settings(method="csq_d", recipe="tuned", batch_size=500).checked(), rows).batch_size == 500
    assert completed(Settings(method="csq", recipe="paper").checked(), rows).batch_size == 64


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
    assert completed(Settings(bits=32, method=method, pull=pull, recipe="tuned").checked(), 10_000).batch_size == batch


class Custom(Objective):
    """A method without settings of its own."""


def test_without_a_recipe_a_method_has_its_own_settings_if_there_are_any_and_no_backbone_learns():
    assert vars(completed(Settings().checked())) == vars(completed(Settings(recipe="tuned").checked()))
    without = vars(completed(Settings().checked(), images=True))
    assert without == vars(completed(Settings(recipe="paper").checked()))
    assert completed(Settings(method=Custom).checked()).recipe == "paper"
    assert completed(Settings(recipe="tuned").checked(), images=True).batch_size == 256


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
    found = completed(Settings(**settings).checked(), images=images)
    assert (found.head, found.pull) == (head, pull)


def test_what_a_method_does_not_name_is_as_in_the_recipe_paper():
    named = type("Named", (Custom,), {"recommended": {"none": {"lr": 0.002}}})
    assert vars(completed(Settings(method=named, pull="none").checked(), 1000)) == {
        **vars(completed(Settings(method=named, pull="none", recipe="paper").checked())),
        "recipe": "tuned",
        "lr": 0.002,
    }


def test_a_pull_may_have_the_settings_of_the_recipe_paper_at_one_length_or_at_all():
    paper, own = "paper", {"lr": 0.002, "options": {"a": 1}, "guidance": {"weight": 0.5}}
    lengths = {"recommended": {"none": paper, "surrogate": own}, "recommended_long": {"none": own, "surrogate": paper}}
    named = type("Named", (Custom,), lengths)
    for pull, bits in product(("none", "surrogate"), (32, 64)):
        found = vars(completed(Settings(bits=bits, method=named, pull=pull).checked(), 1000))
        as_paper = vars(completed(Settings(bits=bits, method=named, pull=pull, recipe="paper").checked())) | {
            "recipe": "tuned"
        }
        assert found == as_paper | (own if (pull == "surrogate") == (bits == 32) else {})


def test_a_method_without_settings_of_its_own_has_no_tuned_recipe():
    with pytest.raises(ValueError, match=r"^recipe is 'tuned', for which method 'custom' has no settings; it must be"):
        completed(Settings(method=Custom, recipe="tuned").checked())
