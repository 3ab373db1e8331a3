import copy

import pytest
import torch

from routelab.records import Refusal
from routelab.training import Recipe, train
from routelab.training.prefix import Suffix, compute_tokens
from tests.training.small_models import TOPK, small_model, some_digits

CPU = torch.device("cpu")


def test_tokens_and_suffix_give_the_models_output():
    model, data = small_model(TOPK), some_digits(30)
    tokens = compute_tokens(model, data, batch_size=8, dtype=torch.float32, device=CPU)
    assert tokens.tokens.shape == (30, 17, 24)
    with torch.no_grad():
        ours = Suffix(model)(tokens.tokens)
        theirs = torch.cat([model(batch.pixels) for batch in data.batches(30)])
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("trains", ["moe", "suffix"])
def test_a_cached_prefix_changes_no_weight(trains):
    data = some_digits(120)
    plain = small_model(TOPK)
    cached = copy.deepcopy(plain)
    recipe = Recipe(epochs=2, batch_size=40, trains=trains, label_smoothing=0.0)
    one = train(plain, data, recipe)
    update = {"cache_prefix": True, "cache_dtype": "float32"}
    other = train(cached, data, recipe.model_copy(update=update))
    assert one.parameters == other.parameters
    assert one.last.loss == pytest.approx(other.last.loss, rel=1e-4)
    for (name, a), b in zip(plain.named_parameters(), cached.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, msg=name)


def test_a_dense_model_has_no_prefix():
    recipe = Recipe(trains="moe", cache_prefix=True)
    with pytest.raises(Refusal, match="needs a MoE model"):
        train(small_model(), some_digits(20), recipe)
    with pytest.raises(Refusal, match="dense VisionTransformer"):
        Suffix(small_model())
