"""The forms that the experiment on departures from the papers compares."""

import pytest
import torch
from benchmarks.experiments import fidelity

from lbhash.losses import Task
from lbhash.losses.dsdh import DSDH
from lbhash.losses.hashnet import HashNet

pytestmark = pytest.mark.end_to_end


def task():
    labels = torch.arange(40) % 4
    return Task(8, 4, labels, torch.where(torch.rand(4, 8) < 0.5, -1.0, 1.0), 2)


def test_the_surrogate_that_steps_first_gets_no_gradient_of_the_model_s_loss():
    torch.manual_seed(0)
    form, logits = fidelity.TwoStepsCSQ(task()), torch.randn(16, 8, requires_grad=True)
    form.begin_epoch(10)
    assert form.adam.param_groups[0]["lr"] == pytest.approx(1e-4)
    before = [weight.detach().clone() for weight in form.guided.surrogate.parameters()]
    form(logits, torch.arange(16) % 4, torch.arange(16)).backward()
    weights = list(form.guided.surrogate.parameters())
    moved = [(new.detach() - old).abs().max().item() for new, old in zip(weights, before, strict=True)]
    assert max(moved) == pytest.approx(1e-4, rel=0.01)  # Adam's first step is the rate
    assert not any(weight.grad.any() for weight in weights)
    assert logits.grad.abs().sum() > 0


def test_beta_grows_with_the_steps():
    form, logits = fidelity.StepsHashNet(task()), torch.randn(4, 8)
    labels, index = torch.tensor([0, 1, 0, 1]), torch.arange(4)
    found = [(float(form(logits, labels, index)), form.beta)[1] for _ in range(401)]
    assert [found[at] for at in (0, 199, 200, 400)] == pytest.approx([1, 1, 2**0.5, 3**0.5])
    plain = HashNet(task())
    plain.beta = 3**0.5
    torch.testing.assert_close(form(logits, labels, index), plain(logits, labels, index))


def test_codes_are_set_before_every_batch():
    form, plain = fidelity.BatchesDSDH(task()), DSDH(task())
    plain.load_state_dict(form.state_dict())
    logits, labels, index = torch.randn(8, 8), torch.arange(8) % 4, torch.arange(8)
    plain.update_codes()
    torch.testing.assert_close(form(logits, labels, index), plain(logits, labels, index))


@pytest.mark.slow
def test_every_form_trains(tmp_path, capsys):
    fidelity.main(["--data", "digits", "--epochs", "1", "--seeds", "2", "--out", str(tmp_path)])
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(fidelity.FORMS)
