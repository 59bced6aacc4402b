"""PyTorch's optimizers without their compiler wrappers.

The wrappers import PyTorch's compiler, which takes as long as importing the rest of PyTorch, and they matter only for
compiled optimizers. The optimizers here compute the same.
"""

from __future__ import annotations

from inspect import unwrap
from typing import Any

import torch

_WRAPPED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


def _unwrapped(kind: type[torch.optim.Optimizer]) -> dict[str, Any]:
    methods = {name: unwrap(getattr(kind, name)) for name in _WRAPPED}
    return {**methods, "step": torch.no_grad()(unwrap(kind.step))}


Adam: type[torch.optim.Adam] = type("Adam", (torch.optim.Adam,), _unwrapped(torch.optim.Adam))
LBFGS: type[torch.optim.LBFGS] = type("LBFGS", (torch.optim.LBFGS,), _unwrapped(torch.optim.LBFGS))
