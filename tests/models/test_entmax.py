import entmax as package
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from routelab.models import entmax15


def scores(rows, columns, spread, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return spread * torch.randn(rows, columns, generator=generator, dtype=dtype)


def test_two_scores_by_hand():
    # t = (1, 0): (1/2 - τ)² + τ² = 1 has τ = (1/2 - √(2 - 1/4)) / 2
    tau = (0.5 - 1.75**0.5) / 2
    expected = torch.tensor([(0.5 - tau) ** 2, tau**2], dtype=torch.float64)
    torch.testing.assert_close(entmax15(torch.tensor([1.0, 0.0], dtype=torch.float64)), expected)
    assert entmax15(torch.tensor([4.0, 0.0])).tolist() == [1.0, 0.0]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 300), st.floats(1e-4, 1e4), st.integers(0, 999))
def test_equals_the_package_that_sorts(rows, columns, spread, seed):
    given_scores = scores(rows, columns, spread, seed)
    ours = entmax15(given_scores)
    torch.testing.assert_close(ours, package.entmax15(given_scores, dim=-1), atol=1e-10, rtol=0)
    torch.testing.assert_close(ours.sum(-1), torch.ones(rows, dtype=torch.float64))


@pytest.mark.parametrize("spread", [0.01, 1.0, 100.0])
def test_single_precision_sums_to_one(spread):
    ours = entmax15(scores(500, 294, spread, 0, torch.float32))
    torch.testing.assert_close(ours.sum(-1), torch.ones(500), atol=2e-6, rtol=0)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_runs_along_any_axis(dim):
    cube = scores(6, 20, 2.0, 1).view(2, 3, 20)
    torch.testing.assert_close(entmax15(cube, dim), package.entmax15(cube, dim=dim))


def test_gradient():
    point = scores(4, 9, 1.0, 2).requires_grad_()
    assert torch.autograd.gradcheck(entmax15, point)
    ours, theirs = (
        torch.autograd.grad(f(point, -1)[:, 0].sum(), point)[0]
        for f in (entmax15, package.entmax15)
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("columns", [1, 2, 7, 4096, 100_000])
def test_ties_share_alike(columns):
    equal = entmax15(torch.full((2, columns), 3.5, dtype=torch.float64))
    torch.testing.assert_close(equal, torch.full_like(equal, 1 / columns))


def test_masked_slots_get_nothing_and_no_gradient():
    masked = torch.tensor([[1.0, float("-inf"), 0.5]], dtype=torch.float64, requires_grad=True)
    ours = entmax15(masked)
    torch.testing.assert_close(ours[:, [0, 2]], package.entmax15(masked[:, [0, 2]], dim=-1))
    assert ours[0, 1] == 0
    ours[0, 0].backward()
    assert masked.grad is not None
    assert masked.grad[0, 1] == 0
    assert masked.grad.isfinite().all()


def test_nan_stays_in_its_row():
    rows = torch.tensor([[0.3, float("nan"), 0.1], [0.3, 0.2, 0.1]])
    ours = entmax15(rows)
    assert ours[0].isnan().all()
    torch.testing.assert_close(ours[1], package.entmax15(rows[1], dim=-1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_solved_in_single(dtype):
    half = scores(3, 50, 1.0, 4).to(dtype)
    assert entmax15(half).dtype == dtype
    torch.testing.assert_close(entmax15(half), entmax15(half.float()).to(dtype))
