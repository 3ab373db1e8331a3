"""Every layer's equation in plain float64 NumPy, with loops, to hold the torch layers against."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erf


def softmax(values, axis):
    """exp / Σ exp along one axis."""
    shifted = np.exp(values - values.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)


def entmax15(scores):
    """1.5-entmax of one vector: p_i = max(s_i/2 - τ, 0)², τ such that Σ p = 1, by bisection."""
    half = np.asarray(scores, dtype=np.float64) / 2
    low, high = half.max() - 1, half.max()
    for _ in range(200):
        middle = (low + high) / 2
        if (np.maximum(half - middle, 0) ** 2).sum() > 1:
            low = middle
        else:
            high = middle
    weights = np.maximum(half - (low + high) / 2, 0) ** 2
    return weights / weights.sum()


def gelu(x):
    """x Φ(x)."""
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def expert(x, bank, index):
    """One expert's MLP on one vector."""
    hidden = gelu(x @ bank["fc1_weight"][index] + bank["fc1_bias"][index])
    return hidden @ bank["fc2_weight"][index] + bank["fc2_bias"][index]


def every_expert(banks):
    """(bank, index) of each expert in the order of the expert axis."""
    return [(bank, e) for bank in banks for e in range(len(bank["fc1_weight"]))]


def soft_output(tokens, dispatch, combine, banks, slots):
    """y_n = Σ_s combine[n, s] f(Σ_m dispatch[m, s] x_m), one image; `slots` an expert."""
    owners = [
        pair
        for bank, p in zip(banks, slots, strict=True)
        for pair in every_expert([bank])
        for _ in range(p)
    ]
    out = np.zeros_like(tokens)
    for s, (bank, index) in enumerate(owners):
        mixed = sum(dispatch[m, s] * tokens[m] for m in range(len(tokens)))
        answer = expert(mixed, bank, index)
        for n in range(len(tokens)):
            out[n] += combine[n, s] * answer
    return out


def sparse_output(tokens, choices, banks):
    """y_n = Σ gate · f_e(x_n) over the kept choices {(n, e): gate}, one image."""
    experts = every_expert(banks)
    out = np.zeros_like(tokens)
    for (n, e), gate in choices.items():
        out[n] += gate * expert(tokens[n], *experts[e])
    return out


def top_k_choices(logits, k, capacity=None, *, by_gate=False, renormalize=False):
    """Kept choices of one group of tokens: first choices queue before second choices."""
    gates = softmax(logits, 1)
    wanted = [sorted(range(gates.shape[1]), key=lambda e: (-row[e], e))[:k] for row in gates]
    order = list(range(len(gates)))
    if by_gate:
        order.sort(key=lambda n: -gates[n, wanted[n][0]])
    taken = dict.fromkeys(range(gates.shape[1]), 0)
    kept = {}
    for rank in range(k):
        for n in order:
            e = wanted[n][rank]
            total = sum(gates[n, other] for other in wanted[n])
            if capacity is None or taken[e] < capacity:
                kept[n, e] = gates[n, e] / total if renormalize else gates[n, e]
            taken[e] += 1
    return kept


def expert_choices(logits, capacity):
    """Kept choices where each expert takes the tokens with its largest softmax value."""
    gates = softmax(logits, 1)
    kept = {}
    for e in range(gates.shape[1]):
        order = sorted(range(len(gates)), key=lambda n: (-gates[n, e], n))
        for n in order[:capacity]:
            kept[n, e] = gates[n, e]
    return kept


def unit_inside(vector):
    """x · rsqrt(Σ x² + 1e-6)."""
    return vector / math.sqrt((vector**2).sum() + 1e-6)


def unit_outside(vector):
    """x / (‖x‖ + 1e-6)."""
    return vector / (math.sqrt((vector**2).sum()) + 1e-6)


def layer_norm(vector, weight, bias):
    """(x - mean) / √(var + 1e-5) · weight + bias."""
    return (vector - vector.mean()) / np.sqrt(vector.var() + 1e-5) * weight + bias
