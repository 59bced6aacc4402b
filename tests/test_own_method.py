from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from lbhash import Hasher
from lbhash.hasher import name_of
from lbhash.losses import Objective
from lbhash.losses.csq import CSQ
from lbhash.losses.registry import METHODS, build_objective, find_method, method_name, stored_method
from lbhash.training.settings import grouped
from lbhash.tuning.space import default_space

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "howto" / "own-method.md").read_text(encoding="utf-8")
SMALL = {"bits": 8, "epochs": 1, "hidden": 0, "centers": "best"}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, with the page's module; what is imported from it is forgotten afterwards."""
    (module, *_) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert "class SoftMargin" in module
    (tmp_path / "soft_margin.py").write_text(module, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("soft_margin", "broken"):
        sys.modules.pop(name, None)


def test_page_lists_every_method():
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z0-9]+)` \|", page, re.MULTILINE) == list(METHODS)


def test_page_of_a_method_of_ones_own(folder, succeed):
    first, *_ = re.findall(r"^lbhash (train .*)$", PAGE, re.MULTILINE)
    assert first.startswith("train digits --method soft_margin:SoftMargin --option margin=2 --out model")
    succeed(*first.split(), "--epochs", 1, "--bits", 16, "--hidden", 0)
    stored = json.loads((folder / "model" / "config.json").read_text(encoding="utf-8"))["metadata"]
    assert (stored["method"], stored["options"]) == ("soft_margin:SoftMargin", {"margin": 2})
    assert json.loads((folder / "model" / "metrics.json").read_text(encoding="utf-8"))["method"] == "softmargin"
    # the folder answers where the module is not
    (folder / "soft_margin.py").unlink()
    sys.modules.pop("soft_margin")
    loaded = Hasher.from_pretrained(folder / "model")
    assert loaded.encode(np.zeros((2, 64), np.float32)).shape == (2, 2)
    assert name_of(loaded) == "softmargin"
    with pytest.raises(ValueError, match=r"^method is 'soft_margin:SoftMargin', whose module 'soft_margin' could not"):
        loaded.fit(np.eye(4, 64), [0, 1, 2, 3])


def test_name_and_class_train_alike(folder, blobs):
    named = Hasher(**grouped(**SMALL, method="soft_margin:SoftMargin", options={"margin": 2.0})).fit(blobs.x, blobs.y)
    given = Hasher(**grouped(**SMALL, method=find_method("soft_margin:SoftMargin"), options={"margin": 2.0}))
    np.testing.assert_array_equal(named.train_codes_, given.fit(blobs.x, blobs.y).train_codes_)
    assert name_of(named) == name_of(given) == "softmargin"
    given.save_pretrained(folder / "model")
    again = Hasher.from_pretrained(folder / "model")
    assert again.method == "soft_margin:SoftMargin"
    np.testing.assert_array_equal(again.fit(blobs.x, blobs.y).train_codes_, named.train_codes_)


def test_a_name_that_has_the_pull(blobs):
    given, named = (
        Hasher(**grouped(**SMALL, **said)).fit(blobs.x, blobs.y)
        for said in ({"method": "csq", "pull": "surrogate"}, {"method": "csq_d"})
    )
    assert name_of(given) == name_of(named) == "csq_d"
    np.testing.assert_array_equal(given.train_codes_, named.train_codes_)
    assert named.model_.metadata["method"] == "csq"
    assert (method_name("csq_d"), stored_method("csq_d"), stored_method(CSQ)) == ("csq", "csq", "csq")
    upper = Hasher(**grouped(**SMALL, method="CSQ_D")).fit(blobs.x, blobs.y)
    assert (name_of(upper), upper.model_.metadata) == ("csq_d", named.model_.metadata)
    assert Hasher(4, method="ITQ").fit(blobs.x).model_.metadata["method"] == "itq"
    with pytest.raises(ValueError, match=r"^method is 'csq_d', whose pull is 'surrogate', and pull is 'none'; leave"):
        Hasher(**grouped(**SMALL, method="csq_d", pull="none")).fit(blobs.x, blobs.y)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("absent:Mine", "whose module 'absent' could not be imported: No module named 'absent'; it must be in the"),
        ("soft_margin.py:SoftMargin", "whose module 'soft_margin.py' could not be imported: .* written without .py"),
        ("broken:Mine", "whose module 'broken' could not be imported: half a method"),
        ("./soft_margin.py:SoftMargin", "a module is written without its folder and .py, as in my_method:Mine"),
        (
            "soft_margin:Missing",
            r"and the module has no such class \(.*soft_margin.py\); it must be a subclass of lbhash",
        ),
        ("soft_margin:Task", r"and the module has Task as something else \(.*\); it must be a subclass of lbhash.loss"),
    ],
)
def test_what_is_no_method(folder, method, message):
    (folder / "broken.py").write_text("raise RuntimeError('half\\na method')", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^method is '{method}'[,;] {message}") as raised:
        build_objective(method, None)
    assert "\n" not in str(raised.value)
    with pytest.raises(
        ValueError, match=f"^{re.escape(str(raised.value))}$"
    ):  # and not the library's own methods behind it
        Hasher(method=method).fit(np.eye(4), range(4))


class Own(Objective):
    """A method with an option of each type."""

    def __init__(self, task, *, margin=1.0, soft=True, kind="a"):
        super().__init__()

    def forward(self, logits, labels, index):
        return logits.square().mean()


class NeedsMore(Own):
    def __init__(self, task, *, scale):
        super().__init__(task)


class TakesNoIndex(Own):
    def forward(self, logits, labels):
        return logits.square().mean()


class HasNoLoss(Objective):
    def __init__(self, task):
        super().__init__()


class ForgetsTheModule(Own):
    def __init__(self, task):
        pass


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (nn.Module, {}, "^method is Module, which is not a subclass of lbhash.losses.Objective$"),
        (NeedsMore, {}, "^method needsmore cannot be made: missing a required argument: 'scale'; it must be __init__"),
        (
            TakesNoIndex,
            {},
            "^method takesnoindex has a forward that cannot be called: too many positional arguments; it",
        ),
        (HasNoLoss, {}, "^method hasnoloss has no forward"),
        (
            ForgetsTheModule,
            {},
            r"^method forgetsthemodule has a constructor that does not call super\(\).__init__\(\)$",
        ),
        (Own, {"margin": "wide"}, "^options has 'margin' with 'wide'; method own takes a number there$"),
        (Own, {"kind": None}, "^options has 'kind' with None; method own takes a text there$"),
    ],
)
def test_classes_that_are_not_as_they_must_be_are_told_how(blobs, method, options, message):
    with pytest.raises(TypeError, match=message):
        Hasher(**grouped(**SMALL, method=method, options=options)).fit(blobs.x, blobs.y)
    assert Hasher(**grouped(**SMALL, method=Own, options={"margin": 2, "soft": False, "kind": "b"})).fit(
        blobs.x, blobs.y
    )


class HasBias(Own):
    def __init__(self, task):
        super().__init__(task)
        self.classifier = nn.Linear(task.bits, task.classes)

    def class_scores(self, signs):
        return self.classifier(signs)


class HasLayer(HasBias):
    def class_scores(self, signs):
        return (self.classifier(signs) - self.classifier.bias).relu()


@pytest.mark.parametrize("method", [HasBias, HasLayer])
@pytest.mark.parametrize("bits", [7, 8])
def test_a_classifier_that_the_model_cannot_store(blobs, method, bits):
    with pytest.raises(ValueError, match=f"^method {method.__name__.lower()} has class_scores that are not linear;"):
        Hasher(**grouped(**SMALL | {"bits": bits}, method=method)).fit(blobs.x, blobs.y)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("recommended", {"lr": 0.003}, "a pull of recommended of method 'mine' is 'lr'; it must be one of none, "),
        (
            "recommended",
            {"none": 3},
            r"recommended of method 'mine'\['none'\] is 3; it must be a dict of settings, or 'paper'",
        ),
        (
            "recommended_long",
            {"surrogate": {"margin": 1}},
            r"a setting of recommended_long of method 'mine'\['surrogate'\] is 'margin'; it must be one of batch",
        ),
    ],
)
def test_settings_that_a_method_may_not_recommend(blobs, name, given, message):
    kind = type("Mine", (Own,), {name: given})
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        Hasher(**grouped(**SMALL | {"bits": 64}, method=kind)).fit(blobs.x, blobs.y)


def test_a_space_that_a_method_may_not_have():
    kind = type("Mine", (Own,), {"search_space": {"margin": [1, 2]}})
    with pytest.raises(
        ValueError, match=r"^search_space of method 'mine' has 'options.margin' with \[1, 2\]; it must be"
    ):
        default_space(kind, "surrogate", 64)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["lam"], "option is 'lam'; it must be NAME=VALUE, such as lam=0.01"),
        (["=1"], "option is '=1'; it must be NAME=VALUE"),
        (["lam=1", "lam=2"], "option gives 'lam' twice; give it once"),
    ],
)
def test_options_of_the_command_line_that_are_none(given, message):
    from lbhash.cli.commands.options import method_options

    with pytest.raises(ValueError, match=f"^{message}"):
        method_options(given)


def test_options_of_the_command_line():
    from lbhash.cli.commands.options import method_options

    assert method_options([]) is None
    given = ["lam=0.01", "n=3", "margin=angular", "soft=True", "hard=false", "none=None", "text=a=b", "empty="]
    assert method_options(given) == {
        "lam": 0.01, "n": 3, "margin": "angular", "soft": True, "hard": False, "none": None, "text": "a=b", "empty": "",
    }  # fmt: skip
