from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.models.dropout import Dropout, keep_mask

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("probability", [0.5, 0.2])
def test_mean_and_variance(probability):
    torch.manual_seed(0)
    n = 400_000
    mask = keep_mask(probability, (100, n // 100), torch.empty(0)).double()
    variance = probability / (1 - probability)
    assert abs(mask.mean() - 1) < 5 * (variance / n) ** 0.5
    assert mask.var().item() == pytest.approx(variance, rel=0.02)


@pytest.mark.parametrize("probability", [0.5, 0.2])
def test_neighbors_are_independent(probability):
    torch.manual_seed(1)
    mask = keep_mask(probability, (200_000,), torch.empty(0)).double()
    for lag in (1, 2, 7, 8, 63, 64, 256):
        correlation = torch.corrcoef(torch.stack([mask[:-lag], mask[lag:]]))[0, 1]
        assert abs(correlation) < 5 / len(mask) ** 0.5


def test_every_position_of_a_word_is_a_fair_coin():
    torch.manual_seed(2)
    kept = (keep_mask(0.5, (4000, 64), torch.empty(0)) > 0).double().mean(dim=0)
    assert (kept - 0.5).abs().max() < 5 * 0.5 / 4000**0.5


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([0.5, 0.2, 0.75]),
    st.lists(st.integers(0, 9), min_size=1, max_size=3),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_shape_type_and_values(probability, shape, dtype):
    like = torch.empty(1, dtype=dtype)
    mask = keep_mask(probability, tuple(shape), like)
    assert mask.shape == torch.Size(shape)
    assert mask.dtype == dtype
    assert ((mask == 0) | torch.isclose(mask, like.new_tensor(1 / (1 - probability)))).all()


def test_probability_zero_has_no_mask_and_draws_nothing():
    state = torch.get_rng_state()
    assert keep_mask(0, (3, 4), torch.empty(0)) is None
    assert keep_mask(0.0, (3, 4), torch.empty(0)) is None
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("probability", [0.5, 0.2])
def test_module_in_training_is_the_mask(probability):
    x = torch.randn(20, 30, requires_grad=True)
    torch.manual_seed(5)
    mask = keep_mask(probability, (20, 30), x)
    torch.manual_seed(5)
    out = Dropout(probability).train()(x)
    assert torch.equal(out, x * mask)
    out.sum().backward()
    assert torch.equal(x.grad, mask)
    assert (mask == 0).any()
    assert (mask > 0).any()
