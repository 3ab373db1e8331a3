"""Results with every quantity that the report knows, of random but plausible numbers."""

from itertools import pairwise

import numpy as np

from routelab.records import Quantity, Result

TERMS = ["class", "image", "token", "residual"]


def results(layers, experts, classes, images, seed=0):
    """All nine Results, by name, for `layers` names, E experts, class names and n images."""
    rng = np.random.default_rng(seed)
    made = [
        _load(rng, layers, experts),
        _consistency(rng, layers, experts, classes),
        _information(rng, layers),
        _probe(rng, layers),
        _specialization(rng, layers, experts, classes),
        _concentration(layers),
        _coactivation(rng, layers, experts),
        _paths(rng, layers, experts),
        _clusters(rng, layers, images),
    ]
    coords = {"layer": list(layers), "class": list(classes)}
    return {
        name: Result(
            name=name,
            n=images,
            coords={**coords, **extra},
            quantities=quantities,
            parameters={"seed": seed, "permutations": 99},
            summary=f"Synthetic {name}.",
            warnings=warnings,
        )
        for name, quantities, extra, warnings in made
    }


def _by_layer(rng, layers, chance=None, spread=0.03):
    value = np.sort(rng.uniform(0.1, 0.9, len(layers)))
    return Quantity(
        value=value,
        dims=("layer",),
        low=value - spread,
        high=value + spread,
        chance=chance,
        p=np.full(len(layers), 0.01) if chance is not None else None,
    )


def _load(rng, layers, experts):
    share = rng.dirichlet(np.ones(experts), len(layers))
    quantities = {
        "share": Quantity(value=share, dims=("layer", "expert"), chance=1 / experts),
        "dead": Quantity(value=share < 0.1 / experts, dims=("layer", "expert")),
        "cold": Quantity(value=share < 0.5 / experts, dims=("layer", "expert")),
    }
    for name in ("cv2", "max_violation", "normalized_entropy", "effective_experts", "hardness"):
        quantities[name] = _by_layer(rng, layers)
    for name in ("token_entropy", "marginal_entropy", "routing_information"):
        quantities[name] = _by_layer(rng, layers)
    warning = f"Layer {layers[0]} has collapsed: expert 0 holds 99% of the mass."
    return "load", quantities, {}, (warning,)


def _consistency(rng, layers, experts, classes):
    profile = rng.dirichlet(np.ones(experts), (len(layers), len(classes)))
    profile[:, -1] = np.nan  # a class without images
    dims = ("layer", "class", "expert")
    quantities = {
        "class_profile": Quantity(value=profile, dims=dims, chance=1 / experts),
        "class_profile_a": Quantity(value=profile, dims=dims),
        "class_profile_b": Quantity(value=profile[:, ::-1][:, ::-1], dims=dims, chance=1 / experts),
        "max_share": _by_layer(rng, layers, chance=0.2),
        "contrast": _by_layer(rng, layers, chance=0.0),
        "max_share_null_low": Quantity(value=np.full(len(layers), 0.15), dims=("layer",)),
        "max_share_null_high": Quantity(value=np.full(len(layers), 0.25), dims=("layer",)),
        "ami": _by_layer(rng, layers, chance=0.0),
        "information": _by_layer(rng, layers, chance=0.05),
        "nmi": _by_layer(rng, layers),
        "p_max_statistic": _by_layer(rng, layers),
    }
    return "consistency", quantities, {}, ("A warning <b>with</b> markup.",)


def _information(rng, layers):
    budget = rng.dirichlet(np.ones(4), len(layers)) * 1.5
    quantities = {
        "budget": Quantity(value=budget, dims=("layer", "term")),
        "budget_corrected": Quantity(value=budget * 0.9 - 0.01, dims=("layer", "term")),
        "position_information": _by_layer(rng, layers, chance=0.02),
        "coherence": _by_layer(rng, layers, chance=0.25),
        "disagreement": _by_layer(rng, layers),
    }
    return "information", quantities, {"term": TERMS}, ()


def _probe(rng, layers):
    names = ("routing_accuracy", "feature_accuracy", "ceiling_accuracy", "control_accuracy")
    quantities = {name: _by_layer(rng, layers, chance=0.1) for name in names}
    efficiency = np.linspace(0.2, 1.1, len(layers))
    efficiency[:1] = np.nan
    quantities["efficiency"] = Quantity(
        value=efficiency, dims=("layer",), reason="NaN: the features say nothing of the class"
    )
    return "probe", quantities, {}, ()


def _specialization(rng, layers, experts, classes):
    shape = (len(layers), experts)
    lift = rng.normal(size=(len(layers), len(classes), experts))
    quantities = {
        "purity": Quantity(value=rng.random(shape), dims=("layer", "expert"), chance=0.15),
        "class_entropy": Quantity(value=rng.random(shape) * 2, dims=("layer", "expert")),
        "divergence": Quantity(value=rng.random(shape), dims=("layer", "expert"), chance=0.1),
        "top_class": Quantity(value=rng.integers(0, len(classes), shape), dims=("layer", "expert")),
        "log_lift": Quantity(value=lift, dims=("layer", "class", "expert"), chance=0.0),
    }
    return "specialization", quantities, {}, ()


def _concentration(layers):
    fraction = np.linspace(0, 1, 21)
    curve = np.stack([fraction**power for power in np.linspace(0.3, 0.9, len(layers))])
    dims = ("layer", "fraction")
    quantities = {}
    for name in ("dispatch_curve", "combine_curve"):
        quantities[name] = Quantity(value=curve, dims=dims)
        for low, high, width in (("p05", "p95", 0.1), ("p20", "p80", 0.05)):
            quantities[f"{name}_{low}"] = Quantity(value=np.clip(curve - width, 0, 1), dims=dims)
            quantities[f"{name}_{high}"] = Quantity(value=np.clip(curve + width, 0, 1), dims=dims)
    rng = np.random.default_rng(1)
    for name in ("effective_tokens", "redundancy_within", "redundancy_between"):
        quantities[name] = _by_layer(rng, layers)
    return "concentration", quantities, {"fraction": [str(f) for f in fraction]}, ()


def _coactivation(rng, layers, experts):
    matrix = rng.random((len(layers), experts, experts))
    matrix[:, np.arange(experts), np.arange(experts)] = np.nan
    dims = ("layer", "expert", "expert2")
    quantities = {
        "matrix": Quantity(value=matrix, dims=dims, chance=0.3),
        "lift": Quantity(value=matrix * 2, dims=dims, chance=1.0),
    }
    return "coactivation", quantities, {}, ()


def _paths(rng, layers, experts):
    pairs = [f"{a}→{b}" for a, b in pairwise(layers)]
    joint = rng.dirichlet(np.full(experts**2, 0.3), len(pairs))
    quantities = {
        "effective_paths": Quantity(value=np.array(12.5)),
        "path_entropy": Quantity(value=np.array(2.5)),
        "path_ami": Quantity(value=np.array(0.4), chance=0.0, p=0.01),
        "nominal_degree_log": Quantity(value=np.array(np.nan), reason="one layer"),
    }
    if pairs:
        quantities["transition"] = Quantity(
            value=joint.reshape(-1, experts, experts), dims=("pair", "expert", "expert2")
        )
        quantities["transition_ami"] = Quantity(
            value=rng.random(len(pairs)), dims=("pair",), chance=0.0
        )
    return "paths", quantities, {"pair": pairs}, ()


def _clusters(rng, layers, images):
    quantities = {
        name: _by_layer(rng, layers, chance=0.0)
        for name in ("silhouette_class", "knn_purity", "kmeans_ami_class", "kmeans_ami_expert")
    }
    quantities["coordinates"] = Quantity(
        value=rng.normal(size=(len(layers), 1, images, 2)),
        dims=("layer", "method", "image", "axis"),
    )
    return "clusters", quantities, {"method": ["PCA"], "axis": ["1", "2"]}, ()
