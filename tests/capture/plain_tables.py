"""The per-image tables and totals, plainly in NumPy from full routing: the tests' oracle."""

import math

import numpy as np


def mass_of(kind, arrays, spec):
    """Token→expert mass (N, E) of one image."""
    n = spec.tokens
    mass = np.zeros((n, spec.experts))
    if spec.soft:
        for s, e in enumerate(spec.expert_of_slot):
            mass[:, e] += arrays["combine"][:, s]
        return mass
    for t in range(n):
        for expert, gate, slot in zip(
            arrays["expert"][t], arrays["gate"][t], arrays["slot"][t], strict=True
        ):
            mass[t, expert] += gate if slot >= 0 else 0
    return mass


def entropy(p):
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def image_tables(arrays, spec):
    """Every table of one image, from its dispatch/combine or expert/gate/slot/probs."""
    mass = mass_of(spec.kind, arrays, spec)
    patches = mass[spec.prefix :]
    profile = patches.mean(0)
    tables = {"profile": profile}
    if spec.prefix:
        tables["prefix_mass"] = mass[: spec.prefix]
    hits = np.zeros(spec.experts, int)
    entropies, largest, margins, away = [], [], [], []
    top = []
    for row in patches:
        if row.sum() == 0:
            top.append(None)
            continue
        share = row / row.sum()
        best = int(np.argmax(share))
        top.append(best)
        hits[best] += 1
        ordered = np.sort(share)[::-1]
        entropies.append(entropy(share))
        largest.append(ordered[0])
        margins.append(ordered[0] - (ordered[1] if len(ordered) > 1 else 0))
        away.append(best != int(np.argmax(profile)))
    tables["hits"] = hits
    for name, values in (
        ("token_entropy", entropies),
        ("hardness", largest),
        ("margin", margins),
        ("disagreement", away),
    ):
        tables[name] = np.mean(values) if values else math.nan
    tables["coherence"] = coherence(top, None if spec.image_level else spec.grid)
    if spec.soft:
        columns = arrays["dispatch"].T
        tables["effective_tokens"] = np.mean([np.exp(entropy(c.astype(float))) for c in columns])
    else:
        missed = arrays["slot"][spec.prefix :] < 0
        each = missed.all(1) if spec.kind == "expert_choice" else missed
        tables["dropped"] = each.mean()
        tables["gate_probs_profile"] = arrays["probs"][spec.prefix :].mean(0)
    return tables


def coherence(top, grid):
    if grid is None:
        return math.nan
    h, w = grid
    same = pairs = 0
    for r in range(h):
        for c in range(w):
            for rr, cc in ((r + 1, c), (r, c + 1)):
                if rr < h and cc < w:
                    a, b = top[r * w + c], top[rr * w + cc]
                    if a is not None and b is not None:
                        pairs += 1
                        same += a == b
    return same / pairs if pairs else math.nan


def image_sums(arrays, spec):
    """What one image adds to the totals of its layer."""
    patches = mass_of(spec.kind, arrays, spec)[spec.prefix :]
    pairs = np.zeros((spec.experts, spec.experts))
    log_mass, tokens = 0.0, 0
    for t, row in enumerate(patches):
        if spec.soft:
            together = row
        else:
            together = np.zeros(spec.experts)
            for expert, slot in zip(
                arrays["expert"][spec.prefix + t], arrays["slot"][spec.prefix + t], strict=True
            ):
                together[expert] += slot >= 0
        pairs += np.outer(together, together)
        if row.sum() > 0:
            tokens += 1
            log_mass -= entropy(row / row.sum())
    return {
        "coactivation": pairs,
        "position_mass": patches,
        "mass_log_mass": log_mass,
        "tokens": tokens,
    }
