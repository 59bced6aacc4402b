from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lbhash.losses import Objective, Task
from lbhash.losses.csq import CSQ
from lbhash.losses.pulls import BitsPull, SurrogatePull
from lbhash.losses.registry import METHODS
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
    guided = SurrogatePull(host, task, **options)
    guided.surrogate = surrogate
    return guided


def make_batch(task):
    index = torch.tensor([3, 0, 7, 10, 2, 5, 8])
    logits = torch.randn(len(index), BITS, generator=torch.Generator().manual_seed(3))
    return logits.requires_grad_(), task.labels[index], index


@methods
@labelings
@pytest.mark.parametrize("mode", ["add", "replace"])
def test_value_and_gradient_are_the_sum_of_their_parts(method, multi, mode):
    """Which parts learn from which loss is in ``Surrogate.losses``, and has a test of its own."""
    task = make_task(multi)
    guided = make(method, task, mode=mode, weight=2.5)
    logits, labels, index = make_batch(task)
    torch.manual_seed(8)  # some hosts draw
    loss = guided(logits, labels, index)
    rows, classes = labels.nonzero(as_tuple=True) if multi else (torch.arange(len(labels)), labels)
    surrogate = guided.surrogate
    centers = surrogate.block_index(task.centers)[classes]
    fit, pull = surrogate.losses(logits, surrogate.block_index(logits), centers, rows)
    torch.manual_seed(8)
    expected = fit + 2.5 * pull + (guided.host(logits, labels, index) if mode == "add" else 0)
    torch.testing.assert_close(loss, expected)
    learned = [logits, *guided.parameters()]
    gradients = [torch.autograd.grad(value, learned, materialize_grads=True) for value in (loss, expected)]
    for found, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted)


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
    guided = SurrogatePull(Recorder(), task)
    for epoch in (0, 1, 17):
        guided.begin_epoch(epoch)
    assert guided.host.epochs == [0, 1, 17]
    guided.end_training()
    assert guided.host.epochs == [0, 1, 17, "end"]
    signs = make_batch(task)[0].detach().sign()
    assert torch.equal(guided.class_scores(signs), 2 * signs[:, :CLASSES])


def test_centers_and_surrogate():
    task = make_task()
    guided = SurrogatePull(Nothing(), task)
    assert (guided.surrogate.bits, guided.surrogate.block_bits, guided.surrogate.hidden) == (BITS, 8, 256)
    assert guided.weight == 1
    assert SurrogatePull(Nothing(), task, weight="balanced").weight == 1
    assert SurrogatePull(CSQ(task), task, weight="balanced").weight == CSQ.guidance_weight < 1
    assert guided.mode == "add"
    assert guided.centers.tolist() == guided.surrogate.block_index(task.centers).tolist()
    assert "centers" in guided.state_dict()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mode": "append"}, ValueError, "mode is 'append'; it must be one of add, replace"),
        ({"weight": "1"}, ValueError, "weight is '1'; it must be a number or 'balanced'"),
        ({"weight": None}, TypeError, "weight is None; it must be a number, finite"),
    ],
)
def test_bad_guidance(options, error, message):
    with pytest.raises(error, match=f"^{message}"):
        SurrogatePull(Nothing(), make_task(), **options)


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
    pulled = BitsPull(Nothing(), task, weight=0.3)
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
    alone = BitsPull(Nothing(), task)(logits, labels, index)
    torch.testing.assert_close(BitsPull(host, task)(logits, labels, index), of_host + alone)
    assert BitsPull(host, task).class_scores(task.centers) is not None
    with pytest.raises(TypeError, match=r"^weight is 'balanced'; it must be a number"):
        BitsPull(host, task, weight="balanced")
