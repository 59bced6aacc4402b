"""Adam, as every training here takes it."""

from __future__ import annotations

from inspect import unwrap

import torch


class Adam(torch.optim.Adam):
    """PyTorch's Adam without wrappers that import PyTorch's compiler, which takes as long as all of PyTorch does.

    They matter only where the optimizer is compiled. It computes the same.
    """

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
