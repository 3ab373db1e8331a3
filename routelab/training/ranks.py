"""How do several processes train as one? What each of them takes, and sums over all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from routelab.records import Refusal


class _Sum(torch.autograd.Function):
    """Sum over processes; the gradient of a sum is the sum of the gradients.

    Every process computes the same loss from the sum and DistributedDataParallel averages their
    gradients, so that summing here gives exactly the gradient of that one loss.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        """The values, added up over all processes."""
        summed = values.detach().clone()
        dist.all_reduce(summed)
        return summed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """The gradients, added up over all processes."""
        summed = gradients[0].clone()
        dist.all_reduce(summed)
        return summed


@dataclass(frozen=True)
class Ranks:
    """One process among those that train together."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """True for the process that writes and speaks."""
        return self.rank == 0

    def total(self, values: Tensor) -> Tensor:
        """Sum over processes, differentiable; the values themselves where there is one."""
        if self.world == 1:
            return values
        summed: Tensor = _Sum.apply(values)
        return summed

    def share(self, order: NDArray[np.int64], batch_size: int) -> NDArray[np.int64]:
        """What of each batch of a global order is this process's, one part after the other."""
        if self.world == 1:
            return order
        starts = range(0, len(order), batch_size)
        parts = [np.array_split(order[i : i + batch_size], self.world)[self.rank] for i in starts]
        return np.concatenate(parts)

    def gather(self, value: Any) -> list[Any]:
        """The value of every process, on all of them."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    def wait(self) -> None:
        """Go on when all processes have come here."""
        if self.world > 1:
            dist.barrier()

    def parallel(self, network: nn.Module) -> nn.Module:
        """The network with gradients averaged over processes."""
        if self.world == 1:
            return network
        return nn.parallel.DistributedDataParallel(network)

    def check(self, batch_size: int) -> None:
        """Refuse batches that cannot be shared out evenly."""
        if batch_size % self.world:
            raise Refusal(
                f"a batch of {batch_size} images cannot be shared out to {self.world} processes; "
                f"set batch_size to a multiple of {self.world}"
            )


ALONE = Ranks()


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """The processes that torchrun started, joined through gloo (CPU) or nccl; else one alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    begins = not dist.is_initialized()
    if begins:
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size())
    finally:
        if begins:
            dist.destroy_process_group()


def own_device(device: str) -> str:
    """The device of this process: "cuda" means the GPU that torchrun gives it."""
    local = os.environ.get("LOCAL_RANK")
    return f"cuda:{local}" if device == "cuda" and local is not None else device
