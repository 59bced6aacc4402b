from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lbhash.losses import CSQ, METHODS, Guided, Objective, Pulled, Task
from lbhash.models.dropout import keep_mask
from lbhash.models.surrogate import Surrogate

BITS = 20  # blocks of 8, 8 and 4
CLASSES = 5
ROWS = 12
SINGLE = torch.arange(ROWS) % CLASSES
MULTI = torch.zeros(ROWS, CLASSES)  # rows of 0 to 3 labels
for row in range(ROWS):
    MULTI[row, [(row + k) % CLASSES for k in range(row % 4)]] = 1


methods = pytest.mark.parametrize("method", ["csq", "dch", "dsdh", "greedyhash", "hyp2", "jmlh"])
labelings = pytest.mark.parametrize("multi", [False, True])


pytestmark = pytest.mark.usefixtures("one_thread")


class Nothing(Objective):
    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        return 0 * logits.sum()


class Recorder(Objective):
    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[int | str] = []
        self.calls: list[tuple[Tensor, Tensor, Tensor]] = []

    def begin_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def end_training(self) -> None:
        self.epochs.append("end")

    def class_scores(self, signs: Tensor) -> Tensor:
        return signs[:, :CLASSES] * 2

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        self.calls.append((logits, labels, index))
        return logits.square().sum()


def make_task(multi=False):
    centers = 2.0 * torch.randint(0, 2, (CLASSES, BITS), generator=torch.Generator().manual_seed(5)) - 1
    return Task(BITS, CLASSES, MULTI if multi else SINGLE, centers)


def make(host, task, dropout=0.0, **options):
    torch.manual_seed(2)
    surrogate = Surrogate(BITS, hidden=16, dropout=dropout)
    host = METHODS[host](task) if isinstance(host, str) else host
    host.begin_epoch(4)
    return Guided(host, task, surrogate=surrogate, **options)


def make_batch(task):
    index = torch.tensor([3, 0, 7, 10, 2, 5, 8])
    logits = torch.randn(len(index), BITS, generator=torch.Generator().manual_seed(3))
    return logits.requires_grad_(), task.labels[index], index


def expected_parts(guided, logits, labels, keep=None):
    """L_π with ℓ detached and L_θ with the weights detached, by two passes, a row and a label at a time."""
    s = guided.surrogate

    def log_p(x, detach):
        w1, b1, w2, b2 = (p.detach() if detach else p for p in (s.weight1, s.bias1, s.weight2, s.bias2))
        x = F.pad(x, (0, 24 - BITS)).view(-1, 3, 8).transpose(0, 1)
        hidden = F.silu(x @ w1 + b1)
        return (hidden if keep is None else hidden * keep) @ w2 + b2 + s.impossible

    def index(signs):
        padded = (signs >= 0).tolist() + [False] * (24 - BITS)
        return [sum(2**k for k in range(8) if padded[8 * j + k]) for j in range(3)]

    centers = make_task().centers
    fit, pull = torch.zeros(()), torch.zeros(())
    of_surrogate, of_model = log_p(logits.detach(), False), log_p(logits, True)
    for i, label in enumerate(labels):
        for j in range(3):
            fit = fit - of_surrogate[j, i].log_softmax(0)[index(logits[i])[j]]
            for c in [int(label)] if labels.ndim == 1 else label.nonzero()[:, 0].tolist():
                pull = pull - of_model[j, i].log_softmax(0)[index(centers[c])[j]]
    return fit / len(labels), pull / len(labels)


def gradients(guided, loss, logits):
    parameters = [logits, *guided.parameters()]
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    found = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
    of = dict(zip(["logits", *dict(guided.named_parameters())], found, strict=True))
    return {
        "logits": of.pop("logits"),
        "surrogate": [g for name, g in of.items() if name.startswith("surrogate.")],
        "host": [g for name, g in of.items() if name.startswith("host.")],
    }


@methods
@labelings
@pytest.mark.parametrize("mode", ["add", "replace"])
@pytest.mark.parametrize(("weight", "dropout"), [(0.0, 0.5), (2.5, 0.0)])
def test_value_and_gradient_are_the_sum_of_their_parts(method, multi, mode, weight, dropout):
    task = make_task(multi)
    guided = make(method, task, dropout, mode=mode, weight=weight)
    host = copy.deepcopy(guided.host)
    logits, labels, index = make_batch(task)
    torch.manual_seed(8)
    keep = keep_mask(dropout, (3, len(labels), 16), logits)
    before_host = torch.get_rng_state()  # some hosts draw, too
    torch.manual_seed(8)
    loss = guided(logits, labels, index)
    found = gradients(guided, loss, logits)

    fit, pull = expected_parts(guided, logits, labels, keep)
    of_fit, of_pull = gradients(guided, fit, logits), gradients(guided, pull, logits)
    own = logits.detach().clone().requires_grad_()
    torch.set_rng_state(before_host)
    of_host = host(own, labels, index)
    own_gradient, *host_gradients = torch.autograd.grad(of_host, [own, *host.parameters()])
    if mode == "replace":
        of_host, own_gradient = torch.zeros(()), torch.zeros_like(own_gradient)
        host_gradients = [torch.zeros_like(g) for g in host_gradients]

    torch.testing.assert_close(loss, of_host + weight * pull + fit, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found["logits"], own_gradient + weight * of_pull["logits"], rtol=1e-4, atol=1e-6)
    for one, expected in zip(found["surrogate"], of_fit["surrogate"], strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-4, atol=1e-6)
        assert expected.any()
    for one, expected in zip(found["host"], host_gradients, strict=True):
        torch.testing.assert_close(one, expected)
    assert of_pull["logits"].abs().max() > 1e-3


def test_a_row_with_several_labels_is_pulled_to_the_center_of_each():
    task = make_task(multi=True)
    guided = make(Nothing(), task)
    logits = make_batch(task)[0].detach()[:1]

    def pull(labels):
        return guided.guidance(logits, labels)[1]

    each = [pull(F.one_hot(torch.tensor([c]), CLASSES).float()) for c in range(CLASSES)]
    for labels in ([0, 3], [1, 2, 4], [2]):
        hot = torch.zeros(1, CLASSES)
        hot[0, labels] = 1
        torch.testing.assert_close(pull(hot), sum(each[c] for c in labels))
        torch.testing.assert_close(pull(hot.long()), sum(each[c] for c in labels))
    single = [pull(torch.tensor([c])) for c in range(CLASSES)]
    torch.testing.assert_close(single, each)
    assert len({round(value.item(), 4) for value in each}) == CLASSES


def test_rows_without_labels_are_pulled_nowhere():
    task = make_task(multi=True)
    guided = make(Nothing(), task)
    logits, _, index = make_batch(task)
    labels = torch.zeros(len(index), CLASSES)
    assert guided.guidance(logits, labels)[1] == 0
    guided(logits, labels, index).backward()
    assert not logits.grad.any()
    assert all(p.grad.any() for p in guided.surrogate.parameters())


def test_epochs_and_class_scores_are_the_hosts():
    task = make_task()
    guided = Guided(Recorder(), task)
    for epoch in (0, 1, 17):
        guided.begin_epoch(epoch)
    assert guided.host.epochs == [0, 1, 17]
    guided.end_training()
    assert guided.host.epochs == [0, 1, 17, "end"]
    signs = make_batch(task)[0].detach().sign()
    assert torch.equal(guided.class_scores(signs), 2 * signs[:, :CLASSES])


def test_centers_and_surrogate():
    task = make_task()
    guided = Guided(Nothing(), task)
    assert (guided.surrogate.bits, guided.surrogate.block_bits, guided.surrogate.hidden) == (BITS, 8, 256)
    assert guided.weight == 1
    assert Guided(Nothing(), task, weight="balanced").weight == 1
    assert Guided(CSQ(task), task, weight="balanced").weight == CSQ.guidance_weight < 1
    assert guided.mode == "add"
    own = Surrogate(BITS, 5, hidden=8)
    guided = Guided(Nothing(), task, surrogate=own)
    assert guided.surrogate is not own
    assert guided.surrogate.hidden == 8
    for mine, theirs in zip(guided.surrogate.parameters(), own.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert guided.centers.shape == (CLASSES, 4)
    assert guided.centers.tolist() == own.block_index(task.centers).tolist()
    assert "centers" in guided.state_dict()


def test_guidance_alone_brings_the_codes_to_their_centers():
    torch.manual_seed(0)
    rows = 100
    labels = torch.arange(rows) % CLASSES
    task = make_task()
    guided = Guided(Nothing(), task, mode="replace", surrogate=Surrogate(BITS, hidden=64, dropout=0.2))
    logits = torch.randn(rows, BITS).requires_grad_()
    before = (logits.sign() != task.centers[labels]).double().mean()
    adam = torch.optim.Adam([logits, *guided.parameters()], lr=0.02)
    for _ in range(200):
        adam.zero_grad()
        guided(logits, labels, torch.arange(rows)).backward()
        adam.step()
    after = (logits.sign() != task.centers[labels]).double().mean()
    assert before > 0.4
    assert after < 0.15


def test_surrogate_of_other_bits_is_refused():
    task = Task(16, 2, torch.arange(8) % 2, torch.ones(2, 16))
    with pytest.raises(ValueError, match="surrogate is for 8 bits; it must be for 16"):
        Guided(CSQ(task), task, surrogate=Surrogate(8))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mode": "append"}, ValueError, "mode is 'append'; it must be one of add, replace"),
        ({"weight": float("nan")}, ValueError, "weight is nan; it must be finite"),
        ({"weight": "1"}, ValueError, "weight is '1'; it must be a number or 'balanced'"),
        ({"weight": None}, TypeError, "weight is None; it must be a number, finite"),
        ({"noise": -1.0}, ValueError, "noise is -1.0; it must be at least 0"),
        ({"surrogate": "small"}, TypeError, "surrogate is 'small'; it must be a Surrogate, or None for the paper's"),
    ],
)
def test_bad_guidance(options, error, message):
    with pytest.raises(error, match=f"^{message}"):
        Guided(Nothing(), make_task(), **options)


def test_noise_is_in_the_codes_that_the_surrogate_learns():
    task = make_task()
    logits, labels, _ = make_batch(task)
    guided = make("csq", task, noise=2.0)
    torch.manual_seed(9)
    fit, _ = guided.guidance(logits, labels)
    torch.manual_seed(9)
    noisy = guided.surrogate.block_index(logits.detach() + 2 * torch.randn(logits.shape))
    assert (noisy != guided.surrogate.block_index(logits)).any()
    log_p = guided.surrogate(logits.detach()).log_softmax(-1)
    torch.testing.assert_close(fit, -log_p.gather(2, noisy[..., None]).sum() / len(labels))


@labelings
def test_a_pull_bit_by_bit_is_minus_log_p_of_the_center(multi):
    task = make_task(multi)
    logits, labels, index = make_batch(task)
    pulled = Pulled(Nothing(), task, weight=0.3)
    each = []
    for row, label in zip(logits, labels, strict=True):
        named = label.nonzero().flatten().tolist() if multi else [label.item()]
        votes = sum((task.centers[c] for c in named), torch.zeros(BITS))
        center = torch.where(votes == 0, pulled.tie_break, votes.sign())
        p = (row.tanh() * center + 1) / 2
        if named:
            each.append(-p.log().sum())
    torch.testing.assert_close(pulled(logits, labels, index), 0.3 * torch.stack(each).mean())


def test_a_pull_is_added_to_what_the_host_loses():
    task = make_task()
    logits, labels, index = make_batch(task)
    host = Recorder()
    of_host = logits.square().sum()
    alone = Pulled(Nothing(), task)(logits, labels, index)
    torch.testing.assert_close(Pulled(host, task)(logits, labels, index), of_host + alone)
    assert Pulled(host, task).class_scores(task.centers) is not None
    with pytest.raises(TypeError, match=r"^weight is 'balanced'; it must be a number"):
        Pulled(host, task, weight="balanced")
