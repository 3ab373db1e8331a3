import numpy as np

from routelab.figures import Caption, budget_stack


def test_terms_are_stacked_in_their_order_under_ln_e():
    terms = {"class": [0.1], "image": [0.2], "token": [0.3], "residual": [0.4]}
    figure = budget_stack(
        terms, layers=["06"], ceiling=[np.log(8)], title="t", caption=Caption(n=9)
    )
    assert [trace.name for trace in figure.data] == [*terms, "ln E"]
    assert figure.layout.barmode == "relative"
    np.testing.assert_allclose(figure.data[-1].y, [np.log(8)])
