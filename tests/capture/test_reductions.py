import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from routelab.capture.reductions import (
    choose,
    coherence,
    decide,
    entropy,
    image_profiles,
    image_tables,
    layer_sums,
    pool_features,
    token_mass,
)
from routelab.models import SoftWeights, SparseChoice
from routelab.records import GroupRange, RouterSpec, SoftRecipe
from tests.capture import plain_tables


def soft_spec(*, groups=((0, 3, 2),), grid=(2, 3), prefix=2, recipe=True):
    ranges = tuple(
        GroupRange(name=f"g{i}", start=a, stop=b, hidden=4, slots=p)
        for i, (a, b, p) in enumerate(groups)
    )
    return RouterSpec(
        layer="blocks.1.mlp",
        depth=1,
        kind="soft",
        tokens=prefix + grid[0] * grid[1],
        prefix=prefix,
        grid=grid,
        width=4,
        groups=ranges,
        recipe=SoftRecipe(dispatch_temperature=0.7, combine_temperature=1.3) if recipe else None,
    )


def sparse_spec(kind="topk", *, experts=4, k=2, grid=(2, 3), prefix=1):
    group = GroupRange(name="routed", start=0, stop=experts, hidden=4)
    tokens = 1 if kind == "image" else prefix + grid[0] * grid[1]
    return RouterSpec(
        layer="blocks.1.mlp",
        depth=1,
        kind=kind,
        tokens=tokens,
        prefix=0 if kind == "image" else prefix,
        grid=None if kind == "image" else grid,
        width=4,
        groups=(group,),
        k=k,
    )


def soft_routing(spec, images, seed, scale=3.0):
    logits = scale * torch.randn(
        images, spec.tokens, spec.slots, generator=torch.Generator().manual_seed(seed)
    )
    recipe = spec.recipe or SoftRecipe()
    return SoftWeights(
        (logits / recipe.dispatch_temperature).softmax(1),
        (logits / recipe.combine_temperature).softmax(2),
        logits,
    )


def sparse_routing(spec, images, seed, drop=0.4):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(images, spec.tokens, spec.experts, generator=generator)
    probs = logits.softmax(-1)
    gate, expert = probs.topk(spec.k, dim=-1)
    dropped = torch.rand(gate.shape, generator=generator) < drop
    slot = torch.where(dropped, -1, torch.arange(gate.numel()).view(gate.shape))
    return SparseChoice(expert, gate, slot, probs, logits, logits)


def plain(routing, spec):
    """Tables (stacked over images) and totals (summed) by the oracle."""
    fields = routing._asdict()
    images = [
        {name: value[i].numpy() for name, value in fields.items()}
        for i in range(len(routing.logits))
    ]
    tables = [plain_tables.image_tables(arrays, spec) for arrays in images]
    sums = [plain_tables.image_sums(arrays, spec) for arrays in images]
    return (
        {name: np.stack([t[name] for t in tables]) for name in tables[0]},
        {name: np.sum([s[name] for s in sums], axis=0) for name in sums[0]},
    )


def tables_of(routing, spec):
    return image_tables(decide(routing, spec), routing, spec)


def sums_of(routing, spec):
    return layer_sums(decide(routing, spec), routing, spec)


def assert_equal_to_plain(routing, spec):
    found_tables, found_sums = tables_of(routing, spec), sums_of(routing, spec)
    tables, sums = plain(routing, spec)
    assert found_tables.keys() == tables.keys()
    assert found_sums.keys() == sums.keys()
    for name, expected in (tables | sums).items():
        found = (found_tables | found_sums)[name].numpy()
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6, err_msg=name)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), images=st.integers(1, 4), recipe=st.booleans())
def test_soft_reductions_equal_plain_loops(seed, images, recipe):
    spec = soft_spec(groups=((0, 2, 3), (2, 5, 1)), recipe=recipe)
    assert_equal_to_plain(soft_routing(spec, images, seed), spec)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    images=st.integers(1, 4),
    kind=st.sampled_from(["topk", "expert_choice", "image"]),
    drop=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
)
def test_sparse_reductions_equal_plain_loops(seed, images, kind, drop):
    spec = sparse_spec(kind, k=4 if kind == "expert_choice" else 2)
    assert_equal_to_plain(sparse_routing(spec, images, seed, drop), spec)


def test_the_worked_soft_example_of_the_metrics_authority():
    # FX-S: logits ln [[6,1],[2,1],[1,2],[1,4]], two experts of one slot
    logits = torch.log(torch.tensor([[[6.0, 1], [2, 1], [1, 2], [1, 4]]]))
    group = GroupRange(name="routed", start=0, stop=2, hidden=4)
    spec = RouterSpec(
        layer="mlp", depth=0, kind="soft", tokens=4, grid=(2, 2), width=4, groups=(group,),
        recipe=SoftRecipe(),
    )  # fmt: skip
    images = tables_of(SoftWeights(logits.softmax(1), logits.softmax(2), logits), spec)
    np.testing.assert_allclose(images["profile"][0], [0.5142857, 0.4857143], atol=1e-6)
    assert float(images["hardness"]) == pytest.approx(0.7476190, abs=1e-6)
    np.testing.assert_array_equal(images["hits"][0], [2, 2])
    assert float(images["disagreement"]) == 0.5
    assert float(images["coherence"]) == 0.5
    spread = [entropy(column) for column in logits.softmax(1)[0].T]
    expected = np.mean(np.exp([float(h) for h in spread]))
    assert float(images["effective_tokens"]) == pytest.approx(expected, abs=1e-5)


def test_ties_go_to_the_lowest_expert():
    choice = choose(torch.tensor([[[0.2, 0.4, 0.4]]]))
    assert int(choice.top) == 1


def test_an_image_without_a_kept_choice_has_no_token_statistics():
    spec = sparse_spec()
    images = tables_of(sparse_routing(spec, 1, 0, drop=1.0), spec)
    assert images["dropped"].item() == 1.0
    assert not images["hits"].any()
    assert not images["profile"].any()
    for name in ("token_entropy", "hardness", "margin", "disagreement", "coherence"):
        assert math.isnan(images[name].item()), name


def test_one_expert_is_certain():
    spec = sparse_spec(experts=1, k=1)
    images = tables_of(sparse_routing(spec, 2, 0, drop=0.0), spec)
    assert images["hardness"].tolist() == [1.0, 1.0]
    assert images["margin"].tolist() == [1.0, 1.0]
    assert images["token_entropy"].tolist() == [0.0, 0.0]


def test_a_very_sharp_router_gives_finite_entropies():
    spec = soft_spec()
    images = tables_of(soft_routing(spec, 2, 1, scale=3000.0), spec)
    assert torch.isfinite(images["token_entropy"]).all()
    assert ((images["effective_tokens"] >= 1) & (images["effective_tokens"] < 1.001)).all()


def test_mass_of_half_precision_is_summed_in_float32():
    spec = soft_spec()
    routing = soft_routing(spec, 1, 0)
    half = SoftWeights(*(tensor.half() for tensor in routing))
    assert token_mass(half, spec).dtype == torch.float32
    np.testing.assert_allclose(token_mass(half, spec).sum(-1), 1, atol=2e-3)


def test_no_grid_means_no_coherence():
    assert math.isnan(float(coherence(choose(torch.ones(1, 4, 2)), None)))


def test_pooling_leaves_class_and_register_tokens_out():
    tokens = torch.tensor([[[100.0], [1.0], [3.0]]])
    assert pool_features(tokens, 1).item() == 2.0


def test_totals_need_no_more_than_profiles_and_hits():
    spec = sparse_spec()
    routing = sparse_routing(spec, 3, 5)
    few, all_of_them = image_profiles(decide(routing, spec)), tables_of(routing, spec)
    assert few.keys() == {"profile", "hits"}
    for name, rows in few.items():
        assert torch.equal(rows, all_of_them[name])
