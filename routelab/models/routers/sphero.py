"""SpheroMoE: soft routing on a sphere, as MoE Jetpack's paper and as its code have it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from routelab.models.entmax import entmax15
from routelab.models.routers.base import Router
from routelab.models.routing import SoftWeights
from routelab.records import SoftRecipe, SpheroRouting

EPSILON = 1e-6


class ReleasedSpheroRouter(Router):
    """The released code: cosine logits, two learnable temperatures, entmax-1.5 combine.

    L = ⟨l2(x), l2(LN(phi))⟩; dispatch = softmax over tokens of L/τ₀ + ε, combine = entmax-1.5 over
    slots of L/τ₁ + ε, the same ε = noise · N(0, 1) in both.
    """

    def __init__(self, width: int, experts: int, slots: int, config: SpheroRouting) -> None:
        super().__init__()
        self.noise = 1 / experts if config.noise is None else config.noise
        self.noise_at_evaluation = config.noise_at_evaluation
        self.normalize_queries = config.normalize_queries
        temperature = 0.5 if config.temperature is None else config.temperature
        self.phi = nn.Parameter(torch.empty(slots, width))
        self.slot_norm = nn.LayerNorm(width)
        self.dispatch_temperature = nn.Parameter(torch.tensor(float(temperature)))
        self.combine_temperature = nn.Parameter(torch.tensor(float(temperature)))
        nn.init.orthogonal_(self.phi)

    def route(self, tokens: Tensor) -> SoftWeights:
        """Dispatch, combine and cosine logits, each `(B, N, S)`."""
        queries = self.slot_norm(self.phi).to(tokens.dtype)
        logits = on_sphere(tokens) @ (on_sphere(queries) if self.normalize_queries else queries).T
        dispatch = logits / self.dispatch_temperature
        combine = logits / self.combine_temperature
        if self.noise > 0 and (self.training or self.noise_at_evaluation):
            noise = self.noise * torch.randn_like(logits)
            dispatch, combine = dispatch + noise, combine + noise
        return SoftWeights(dispatch.softmax(dim=1), entmax15(combine, dim=2), logits)

    def recipe(self) -> SoftRecipe | None:
        """Both temperatures as they stand; None where noise at evaluation hides the logits used."""
        if self.noise_at_evaluation and self.noise > 0:
            return None
        return SoftRecipe(
            dispatch_temperature=float(self.dispatch_temperature.detach()),
            combine_temperature=float(self.combine_temperature.detach()),
            combine="entmax15",
        )


class PaperSpheroRouter(Router):
    """The paper: K = x W, queries LN(phi) normalised, keys not, one temperature, two softmaxes.

    S = K l2(LN(phi))ᵀ (+ noise in training); dispatch = softmax over tokens of S/T,
    combine = softmax over slots of S/T.
    """

    def __init__(self, width: int, experts: int, slots: int, config: SpheroRouting) -> None:
        super().__init__()
        self.noise = 1 / experts if config.noise is None else config.noise
        self.noise_at_evaluation = config.noise_at_evaluation
        self.normalize_queries = config.normalize_queries
        temperature = 1.0 if config.temperature is None else config.temperature
        self.key = nn.Linear(width, width, bias=False)
        self.phi = nn.Parameter(torch.empty(slots, width))
        self.slot_norm = nn.LayerNorm(width)
        self.temperature = nn.Parameter(torch.tensor(float(temperature)))
        nn.init.orthogonal_(self.phi)
        nn.init.trunc_normal_(self.key.weight, std=0.02)

    def route(self, tokens: Tensor) -> SoftWeights:
        """Dispatch, combine and logits, each `(B, N, S)`."""
        keys = nn.functional.linear(tokens, self.key.weight.to(tokens.dtype))
        queries = self.slot_norm(self.phi).to(tokens.dtype)
        logits = keys @ (on_sphere(queries) if self.normalize_queries else queries).T
        if self.noise > 0 and (self.training or self.noise_at_evaluation):
            logits = logits + self.noise * torch.randn_like(logits)
        scaled = logits / self.temperature
        return SoftWeights(scaled.softmax(dim=1), scaled.softmax(dim=2), logits)

    def recipe(self) -> SoftRecipe:
        """The one temperature serves both softmaxes."""
        temperature = float(self.temperature.detach())
        return SoftRecipe(dispatch_temperature=temperature, combine_temperature=temperature)


def sphero_router(width: int, experts: int, slots: int, config: SpheroRouting) -> Router:
    """The router of the preset that the config names."""
    presets = {"released": ReleasedSpheroRouter, "paper": PaperSpheroRouter}
    return presets[config.preset](width, experts, slots, config)


def on_sphere(vectors: Tensor) -> Tensor:
    """The vectors x / (‖x‖ + 1e-6), the released code's l2 normalisation."""
    return vectors / (vectors.norm(dim=-1, keepdim=True) + EPSILON)
