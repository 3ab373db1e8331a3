"""In which number format are matrices multiplied, and how do small gradients survive it?"""

from __future__ import annotations

import torch
from torch import Tensor

from routelab.records import Refusal
from routelab.training.recipe import Precision


class Numbers:
    """Autocast for the forward pass, and for float16 a scaler around the backward pass."""

    def __init__(self, precision: Precision, device: torch.device) -> None:
        if precision == "float16" and device.type != "cuda":
            raise Refusal(
                f"float16 training needs CUDA and this is {device.type}; take bfloat16 or float32"
            )
        self.device = device
        self.dtype = getattr(torch, precision)
        self.scaler = torch.amp.GradScaler(device.type, enabled=precision == "float16")

    def forward(self) -> torch.autocast:
        """Context of the forward pass."""
        return torch.autocast(
            self.device.type, dtype=self.dtype, enabled=self.dtype != torch.float32
        )

    def backward(self, loss: Tensor) -> None:
        """Gradients of the loss, added to those that are there."""
        self.scaler.scale(loss).backward()

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Make the gradients those of the loss itself."""
        self.scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """One update, left out where a scaled gradient was not finite."""
        self.scaler.step(optimizer)
        self.scaler.update()
