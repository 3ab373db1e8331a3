"""How fast are the MoE layers, beside a dense MLP of equal FLOPs and two public ways to write them?

    python -m benchmarks.moe_layers [--rounds 4]

Arms, one compute thread, float32: RouteLab's layer; the same equation as stacked einsums with
weights in nn.Linear layout `(E, out, in)`; a Python loop over a ModuleList of experts; and a dense
MLP whose hidden width is chosen so that its FLOPs equal the MoE layer's, routing included. In all
arms the C library keeps freed memory, as in RouteLab's own training (`keep_freed_memory`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import torch
from entmax import entmax15
from torch import Tensor, nn

from benchmarks.measure import gemm_rate, interleaved, markdown
from routelab.models import MoELayer, keep_freed_memory
from routelab.records import ExpertGroup, MoESpec, SoftRouting, SpheroRouting, TopKRouting

TOKENS = 197


class EinsumExperts(nn.Module):
    """Two stacked weights in nn.Linear layout and two einsums, as MoE Jetpack writes a bank."""

    def __init__(self, experts: int, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Parameter(torch.randn(experts, hidden, width) * width**-0.5)
        self.bias1 = nn.Parameter(torch.zeros(experts, hidden))
        self.fc2 = nn.Parameter(torch.randn(experts, width, hidden) * hidden**-0.5)
        self.bias2 = nn.Parameter(torch.zeros(experts, width))

    def forward(self, slots: Tensor) -> Tensor:
        hidden = torch.einsum("besd,ehd->besh", slots, self.fc1) + self.bias1[:, None]
        hidden = nn.functional.gelu(hidden)
        return torch.einsum("besh,edh->besd", hidden, self.fc2) + self.bias2[:, None]


class LoopedExperts(nn.Module):
    """One module an expert and a Python loop over them, as the public PyTorch ports write it."""

    def __init__(self, experts: int, width: int, hidden: int) -> None:
        super().__init__()
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
            for _ in range(experts)
        )

    def forward(self, slots: Tensor) -> Tensor:
        outputs = [expert(slots[:, e]) for e, expert in enumerate(self.experts)]
        return torch.stack(outputs, dim=1)


class PlainSoft(nn.Module):
    """Soft MoE written with einsums over `(B, N, E, p)`, the experts given."""

    def __init__(
        self,
        banks: list[nn.Module],
        sizes: list[int],
        slots: int,
        width: int,
        combine: Callable[..., Tensor] = torch.softmax,
    ) -> None:
        super().__init__()
        self.combine = combine
        self.banks = nn.ModuleList(banks)
        self.sizes = sizes
        self.phi = nn.Parameter(torch.randn(sum(sizes), slots, width) * width**-0.5)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, tokens: Tensor) -> Tensor:
        keys = nn.functional.normalize(tokens, dim=-1)
        queries = self.scale * nn.functional.normalize(self.phi, dim=-1)
        logits = torch.einsum("bnd,esd->bnes", keys, queries)
        dispatch = logits.softmax(dim=1)
        combine = self.combine(logits.flatten(2), dim=-1).view_as(logits)
        slots = torch.einsum("bnd,bnes->besd", tokens, dispatch)
        parts = [
            bank(part) for bank, part in zip(self.banks, slots.split(self.sizes, 1), strict=True)
        ]
        return torch.einsum("besd,bnes->bnd", torch.cat(parts, dim=1), combine)


class BufferedTopK(nn.Module):
    """Token choice with expert buffers and stacked einsums (capacity: every token fits)."""

    def __init__(self, experts: int, width: int, hidden: int, k: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.bank = EinsumExperts(experts, width, hidden)
        self.k = k

    def forward(self, tokens: Tensor) -> Tensor:
        flat = tokens.flatten(0, 1)
        gates, chosen = self.gate(flat).softmax(dim=-1).topk(self.k, dim=-1)
        hot = nn.functional.one_hot(chosen.flatten(), self.gate.out_features)
        place = (hot.cumsum(0) - 1).gather(1, chosen.flatten()[:, None]).squeeze(1)
        capacity = int(hot.sum(0).max())
        buffers = flat.new_zeros(hot.shape[1], capacity, flat.shape[1])
        rows = flat.repeat_interleave(self.k, dim=0)
        buffers = buffers.index_put((chosen.flatten(), place), rows)
        done = self.bank(buffers[None])[0][chosen.flatten(), place]
        weighted = done.view(*chosen.shape, -1) * gates[..., None]
        return weighted.sum(dim=1).view_as(tokens)


class LoopedTopK(nn.Module):
    """Token choice with a mask and a module for each expert."""

    def __init__(self, experts: int, width: int, hidden: int, k: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.loop = LoopedExperts(experts, width, hidden)
        self.k = k

    def forward(self, tokens: Tensor) -> Tensor:
        flat = tokens.flatten(0, 1)
        gates, chosen = self.gate(flat).softmax(dim=-1).topk(self.k, dim=-1)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.loop.experts):
            rows, choice = (chosen == e).nonzero(as_tuple=True)
            out = out.index_add(0, rows, expert(flat[rows]) * gates[rows, choice, None])
        return out.view_as(tokens)


@dataclass(frozen=True)
class Case:
    """One layer to time: how it is named, built in each arm, and what it costs."""

    name: str
    batch: int
    width: int
    spec: MoESpec
    einsum: Callable[[], nn.Module]
    loop: Callable[[], nn.Module]

    def flops(self) -> int:
        """FLOPs of one forward pass: experts, router, and soft routing's three products."""
        experts = self.spec.groups
        if self.spec.router.kind in ("soft", "sphero"):
            rows = self.batch
            bank = sum(g.experts * g.slots * g.hidden(self.width) for g in experts)
            slots = sum(g.experts * g.slots for g in experts)
            return 2 * rows * (2 * bank * self.width + 3 * TOKENS * slots * self.width)
        k = getattr(self.spec.router, "k", 1)
        hidden = experts[0].hidden(self.width)
        return (
            2 * self.batch * TOKENS * (2 * k * hidden * self.width + self.width * self.spec.experts)
        )


def soft_case(experts: int, slots: int, width: int = 384, batch: int = 16) -> Case:
    """Soft MoE of equal experts."""
    hidden = 4 * width
    group = ExpertGroup(experts=experts, slots=slots)
    return Case(
        name=f"Soft MoE {experts}×{slots}, d {width}",
        batch=batch,
        width=width,
        spec=MoESpec(layers=(0,), router=SoftRouting(), groups=(group,)),
        einsum=lambda: PlainSoft([EinsumExperts(experts, width, hidden)], [experts], slots, width),
        loop=lambda: PlainSoft([LoopedExperts(experts, width, hidden)], [experts], slots, width),
    )


def dual_case(batch: int = 16) -> Case:
    """SpheroMoE's dual path at ViT-T width: 98 core and 196 universal experts."""
    width, core, universal = 192, 98, 196
    groups = (
        ExpertGroup(name="core", experts=core),
        ExpertGroup(name="universal", experts=universal, hidden_ratio=1.0),
    )

    def plain(bank: type[EinsumExperts] | type[LoopedExperts]) -> nn.Module:
        banks = [bank(core, width, 4 * width), bank(universal, width, width)]
        return PlainSoft(banks, [core, universal], 1, width, entmax15)

    return Case(
        name=f"dual path {core}+{universal}, d {width}",
        batch=batch,
        width=width,
        spec=MoESpec(layers=(0,), router=SpheroRouting(preset="released"), groups=groups),
        einsum=lambda: plain(EinsumExperts),
        loop=lambda: plain(LoopedExperts),
    )


def topk_case(experts: int, k: int, width: int = 384, batch: int = 4) -> Case:
    """Token choice without dropping."""
    hidden = 4 * width
    return Case(
        name=f"token choice E {experts}, k {k}, d {width}",
        batch=batch,
        width=width,
        spec=MoESpec(layers=(0,), router=TopKRouting(k=k), groups=(ExpertGroup(experts=experts),)),
        einsum=lambda: BufferedTopK(experts, width, hidden, k),
        loop=lambda: LoopedTopK(experts, width, hidden, k),
    )


CASES = [
    soft_case(32, 6),
    soft_case(98, 2),
    dual_case(),
    *(topk_case(experts, k) for experts in (8, 16, 32) for k in (1, 2)),
]


def dense_of_equal_flops(case: Case) -> nn.Module:
    """An MLP over all tokens whose two products cost what the whole MoE layer costs."""
    hidden = round(case.flops() / (4 * case.batch * TOKENS * case.width))
    return nn.Sequential(nn.Linear(case.width, hidden), nn.GELU(), nn.Linear(hidden, case.width))


def forward_arm(layer: nn.Module, tokens: Tensor) -> Callable[[], object]:
    """The layer as it runs in inference."""

    def run() -> object:
        with torch.inference_mode():
            return layer(tokens)

    return run


def training_arm(layer: nn.Module, tokens: Tensor) -> Callable[[], object]:
    """Forward and backward, gradients of input and weights, set to None between rounds."""
    source = tokens.clone().requires_grad_()

    def run() -> None:
        layer.zero_grad(set_to_none=True)
        source.grad = None
        layer(source).sum().backward()

    return run


def measure(case: Case, *, rounds: int, peak: float) -> list[list[str]]:
    """Two table rows: forward, and forward with backward."""
    torch.manual_seed(0)
    layers = {
        "ours": MoELayer(case.width, case.spec).eval(),
        "einsum": case.einsum().eval(),
        "loop": case.loop().eval(),
        "dense": dense_of_equal_flops(case).eval(),
    }
    tokens = nn.functional.layer_norm(torch.randn(case.batch, TOKENS, case.width), (case.width,))
    rows = []
    for label, arm, passes in (
        ("forward", forward_arm, 1),
        ("forward + backward", training_arm, 3),
    ):
        seconds = interleaved(
            {name: arm(layer, tokens) for name, layer in layers.items()}, rounds=rounds
        )
        ours = seconds["ours"]
        rows.append(
            [
                f"{case.name}, B {case.batch}: {label}",
                f"{1e3 * ours:.1f}",
                f"{ours / seconds['dense']:.2f}×",
                f"{seconds['einsum'] / ours:.2f}×",
                f"{seconds['loop'] / ours:.2f}×",
                f"{100 * passes * case.flops() / ours / peak:.0f} %",
            ]
        )
    return rows


HEADER = [
    "layer",
    "ours, ms CPU",
    "ours / dense of equal FLOPs",
    "einsum / ours",
    "loop / ours",
    "of GEMM peak",
]


def table(*, rounds: int = 4) -> str:
    """The whole comparison as Markdown."""
    torch.set_num_threads(1)
    keep_freed_memory()
    peak = gemm_rate()
    rows = [row for case in CASES for row in measure(case, rounds=rounds, peak=peak)]
    return f"One thread; this run's sgemm peak is {peak / 1e9:.0f} GFLOP/s.\n\n" + markdown(
        HEADER, rows
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    print(table(rounds=parser.parse_args().rounds))
