import numpy as np
import pytest

from routelab.records import Quantity, Result


def test_a_frame_has_a_row_a_cell_with_its_labels():
    result = Result(
        name="load",
        n=4,
        coords={"layer": ["06", "07"]},
        quantities={
            "share": Quantity(
                value=np.array([[0.25, 0.75], [1.0, 0.0]]),
                dims=("layer", "expert"),
                chance=np.array(0.5),
            )
        },
    )
    frame = result.to_frame("share")
    assert frame.to_dict("list") == {
        "layer": ["06", "06", "07", "07"],
        "expert": ["0", "1", "0", "1"],
        "value": [0.25, 0.75, 1.0, 0.0],
        "chance": [0.5] * 4,
        "n": [4] * 4,
    }


def test_a_scalar_quantity_is_one_row():
    result = Result(name="paths", n=3, quantities={"entropy": Quantity(value=np.array(1.5))})
    assert result.to_frame("entropy")["value"].tolist() == [1.5]


def test_axes_must_match_the_array():
    with pytest.raises(ValueError, match="needs 2 dims"):
        Quantity(value=np.zeros((2, 3)), dims=("layer",))
