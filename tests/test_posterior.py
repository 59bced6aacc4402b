from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lbhash.models.dropout import keep_mask
from lbhash.models.surrogate import Surrogate
from lbhash.reproduce.distributions import divergence, product_of_marginals

SHAPES = [(8, 8), (20, 8), (5, 8), (64, 8), (16, 1), (16, 16), (20, 6)]
HIDDEN = 12
N = 7


pytestmark = pytest.mark.usefixtures("one_thread")


def make(bits, block_bits=8, dropout=0.0, seed=0):
    torch.manual_seed(seed)
    surrogate = Surrogate(bits, block_bits, hidden=HIDDEN, dropout=dropout).double()
    with torch.no_grad():  # larger than the initial weights, so that the probabilities are far from uniform
        for parameter in surrogate.parameters():
            parameter.normal_()
    return surrogate


class Reference:
    """Algorithm 1's networks one by one: r -> hidden -> 2^r, the last block with the bits that are left."""

    def __init__(self, surrogate):
        self.surrogate = surrogate
        r = surrogate.block_bits
        self.starts = range(0, surrogate.bits, r)
        self.sizes = [min(r, surrogate.bits - start) for start in self.starts]
        self.first, self.second = [], []
        for j, size in enumerate(self.sizes):
            first = nn.Linear(size, surrogate.hidden).double()
            second = nn.Linear(surrogate.hidden, 2**size).double()
            with torch.no_grad():
                first.weight.copy_(surrogate.weight1[j, :size].T)
                first.bias.copy_(surrogate.bias1[j, 0])
                second.weight.copy_(surrogate.weight2[j, :, : 2**size].T)
                second.bias.copy_(surrogate.bias2[j, 0, : 2**size])
            self.first.append(first)
            self.second.append(second)

    def blocks(self, logits, keep=None):
        outputs = []
        for j, (start, size) in enumerate(zip(self.starts, self.sizes, strict=True)):
            hidden = F.silu(self.first[j](logits[:, start : start + size]))
            outputs.append(self.second[j](hidden if keep is None else hidden * keep[j]))
        return outputs

    def indices(self, signs):
        found = []
        for row in signs.tolist():
            found.append(
                [
                    sum(2**k for k in range(size) if row[start + k] >= 0)
                    for start, size in zip(self.starts, self.sizes, strict=True)
                ]
            )
        return torch.tensor(found).view(len(signs), len(self.sizes))

    def loss(self, logits, indices, rows, keep=None):
        total = sum(
            F.cross_entropy(output[rows], indices[:, j], reduction="sum")
            for j, output in enumerate(self.blocks(logits, keep))
        )
        return total / len(logits)

    def check_weight_gradients(self):
        s = self.surrogate
        for j, size in enumerate(self.sizes):
            torch.testing.assert_close(s.weight1.grad[j, :size], self.first[j].weight.grad.T)
            torch.testing.assert_close(s.bias1.grad[j, 0], self.first[j].bias.grad)
            torch.testing.assert_close(s.weight2.grad[j, :, : 2**size], self.second[j].weight.grad.T)
            torch.testing.assert_close(s.bias2.grad[j, 0, : 2**size], self.second[j].bias.grad)
            assert self.first[j].weight.grad.abs().max() > 0
            assert not s.weight1.grad[j, size:].any()
            assert not s.weight2.grad[j, :, 2**size :].any()
            assert not s.bias2.grad[j, 0, 2**size :].any()


def make_batch(surrogate, labeling, seed=0):
    """Outputs, the indices of their codes, and what they are pulled to: centers by row."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(N, surrogate.bits, generator=generator, dtype=torch.float64)
    centers = torch.randn(5, surrogate.bits, generator=generator).sign()
    if labeling == "single":
        rows, classes = torch.arange(N), torch.randint(0, 5, (N,), generator=generator)
    elif labeling == "multi":  # rows 1 and 5 without a label, rows 0, 2 and 6 with several
        rows = torch.tensor([0, 0, 0, 2, 2, 3, 4, 6, 6])
        classes = torch.tensor([0, 1, 4, 2, 3, 3, 0, 4, 1])
    elif labeling == "unordered":  # and row 3 twice to the same center
        rows, classes = torch.tensor([3, 0, 3, 6, 0]), torch.tensor([1, 0, 1, 2, 3])
    else:
        rows, classes = torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    return logits, centers, rows, classes


@pytest.mark.parametrize(("bits", "block_bits"), SHAPES)
def test_forward_is_that_of_separate_networks(bits, block_bits):
    surrogate = make(bits, block_bits, dropout=0.5).eval()
    logits = torch.randn(N, bits, dtype=torch.float64)
    out = surrogate(logits)
    reference = Reference(surrogate)
    assert out.shape == (N, math.ceil(bits / min(bits, block_bits)), 2 ** min(bits, block_bits))
    assert out.shape[1] == len(reference.sizes)
    for j, expected in enumerate(reference.blocks(logits)):
        torch.testing.assert_close(out[:, j, : expected.shape[1]], expected)
        assert (out[:, j, expected.shape[1] :] == -math.inf).all()


def test_the_papers_network_is_the_default():
    surrogate = Surrogate(32)
    shapes = {name: tuple(p.shape) for name, p in surrogate.named_parameters()}
    assert shapes == {"weight1": (4, 8, 256), "bias1": (4, 1, 256), "weight2": (4, 256, 256), "bias2": (4, 1, 256)}
    assert surrogate.dropout == 0.5


def test_initial_weights_are_those_of_linear_layers():
    torch.manual_seed(0)
    surrogate = Surrogate(20)  # blocks of 8, 8 and 4
    for parameter, fan_in in (
        (surrogate.weight1[:2], 8),
        (surrogate.weight1[2, :4], 4),
        (surrogate.bias1[:2], 8),
        (surrogate.bias1[2], 4),
        (surrogate.weight2, 256),
        (surrogate.bias2, 256),
    ):
        limit = fan_in**-0.5
        assert 0.95 * limit < parameter.abs().max() <= limit


@pytest.mark.parametrize("labeling", ["single", "multi", "unordered", "none"])
@pytest.mark.parametrize(("bits", "block_bits"), [(16, 8), (20, 8), (5, 8), (20, 6)])
@pytest.mark.parametrize("dropout", [None, 0.5])
def test_losses_and_their_gradients(bits, block_bits, labeling, dropout):
    surrogate = make(bits, block_bits, dropout=0.5 if dropout is None else dropout).train(dropout is not None)
    reference = Reference(surrogate)
    values, centers, rows, classes = make_batch(surrogate, labeling)
    logits = values.clone().requires_grad_()
    codes = surrogate.block_index(logits.detach())
    torch.manual_seed(11)
    keep = keep_mask(dropout or 0, (surrogate.blocks, N, HIDDEN), logits)
    torch.manual_seed(11)
    fit, pull = surrogate.losses(logits, codes, surrogate.block_index(centers)[classes], rows)
    (2 * fit + 3 * pull).backward()  # so that each gradient has the weight of its own loss

    expected_fit = reference.loss(values, reference.indices(values), torch.arange(N), keep)
    torch.testing.assert_close(fit, expected_fit)
    (2 * expected_fit).backward()
    reference.check_weight_gradients()

    held = values.clone().requires_grad_()
    expected_pull = reference.loss(held, reference.indices(centers)[classes], rows, keep)
    torch.testing.assert_close(pull, expected_pull)
    (expected_gradient,) = torch.autograd.grad(3 * expected_pull, held)
    torch.testing.assert_close(logits.grad, expected_gradient)
    unlabeled = [row for row in range(N) if row not in rows.tolist()]
    assert not logits.grad[unlabeled].any()
    assert logits.grad[rows].abs().sum(dim=1).gt(0).all()


def test_losses_stay_finite_for_extreme_outputs():
    torch.manual_seed(0)
    surrogate = Surrogate(20)
    for value in (0.0, 50.0, -50.0):
        surrogate.zero_grad()
        logits = torch.full((4, 20), value, requires_grad=True)
        codes = surrogate.block_index(logits.detach())
        loss = sum(surrogate.losses(logits, codes, 0 * codes, torch.arange(4)))
        loss.backward()
        assert loss.isfinite()
        assert all(t.grad.isfinite().all() for t in (logits, *surrogate.parameters()))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 5, 8, 9, 16, 20, 64]))
def test_block_index_has_the_first_bit_lowest(seed, bits):
    rng = np.random.default_rng(seed)
    signs = rng.choice([-2.5, -1, -0.0, 0.0, 1, 3], (6, bits)).astype(np.float32)
    found = Surrogate(bits, hidden=2).block_index(torch.from_numpy(signs))
    assert found.dtype == torch.int64
    assert found.tolist() == np.packbits(signs >= 0, axis=1, bitorder="little").tolist()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_product_of_marginals_is_the_product(seed, bits):
    marginals = np.random.default_rng(seed).random((2, 3, bits))
    joint = product_of_marginals(marginals)
    assert joint.shape == (2, 3, 2**bits)
    np.testing.assert_allclose(joint.sum(-1), np.ones((2, 3)), rtol=1e-12)
    for a in range(2):
        for b in range(3):
            for outcome in range(2**bits):
                m = marginals[a, b].tolist()
                expected = math.prod(m[k] if outcome >> k & 1 else 1 - m[k] for k in range(bits))
                assert joint[a, b, outcome].item() == pytest.approx(expected, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 20))
def test_kl_is_that_of_a_loop(seed, outcomes):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(outcomes), (2, 3))
    p[0, 0] = 0
    for row in range(3):
        pairs = zip(p[row].tolist(), q[row].tolist(), strict=True)
        expected = sum(a * math.log(a / b) for a, b in pairs if a > 0)
        assert divergence(p[row], q[row]) == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert divergence(p[row], p[row]) == 0


def test_it_learns_how_the_joint_depends_on_the_output():
    # The same marginals everywhere; the bits agree where ℓ > 0 and differ where ℓ < 0.
    torch.manual_seed(0)
    side = torch.randint(0, 2, (1024, 1)) * 2.0 - 1
    first = torch.randint(0, 2, (1024, 1)) * 2.0 - 1
    surrogate = Surrogate(2, hidden=32, dropout=0.2)
    codes = surrogate.block_index(torch.cat([first, first * side], dim=1))
    logits = side.expand(1024, 2)
    adam = torch.optim.Adam(surrogate.parameters(), lr=1e-2)
    for step in range(200):
        batch = torch.arange(64) + 64 * (step % 16)
        adam.zero_grad()
        surrogate.losses(logits[batch], codes[batch], codes[:0], codes[:0, 0])[0].backward()
        adam.step()
    joint = surrogate.eval().joint(torch.tensor([[1.0, 1.0], [-1.0, -1.0]]))[:, 0].detach().numpy()
    truth = np.array([[0.5, 0.0, 0.0, 0.5], [0.0, 0.5, 0.5, 0.0]])
    assert min(map(divergence, truth, product_of_marginals(np.full((2, 2), 0.5)))) > 0.69
    assert max(map(divergence, truth, joint)) < 0.05
