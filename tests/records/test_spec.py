import pytest
from pydantic import ValidationError

from routelab.records import (
    ExpertGroup,
    GroupRange,
    MoESpec,
    RouterSpec,
    SpheroRouting,
    TopKRouting,
)

DUAL = (
    ExpertGroup(name="core", experts=2, hidden_ratio=4.0, slots=2),
    ExpertGroup(name="universal", experts=3, hidden_ratio=0.25),
)


def test_a_spec_survives_json_with_its_router_kind():
    spec = MoESpec(layers=(6, 11), router=SpheroRouting(preset="paper"), groups=DUAL)
    assert MoESpec.model_validate_json(spec.model_dump_json()) == spec


def test_hidden_width_follows_the_model_width():
    assert DUAL[0].hidden(192) == 768
    assert DUAL[1].hidden(192) == 48


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"layers": (3, 3)}, "distinct"),
        ({"layers": (-1,)}, "distinct"),
        ({"groups": (DUAL[0], DUAL[0])}, "different names"),
        ({"router": TopKRouting(k=2), "groups": (ExpertGroup(experts=1),)}, "at least 2 experts"),
        ({"router": TopKRouting(k=1)}, "slots are for soft routing"),
        ({"router": {"kind": "magic"}}, "magic"),
        ({"dropout": 0.1}, "dropout"),
    ],
)
def test_nonsense_is_refused_with_its_reason(change, says):
    given = {"layers": (6,), "router": SpheroRouting(), "groups": DUAL} | change
    with pytest.raises(ValidationError, match=says):
        MoESpec(**given)


def test_slots_map_to_experts_in_the_order_of_the_groups():
    spec = RouterSpec(
        layer="blocks.6.mlp",
        depth=6,
        kind="sphero",
        tokens=17,
        prefix=1,
        grid=(4, 4),
        width=8,
        groups=(
            GroupRange(name="core", start=0, stop=2, hidden=32, slots=2),
            GroupRange(name="universal", start=2, stop=5, hidden=2),
        ),
    )
    assert spec.expert_of_slot.tolist() == [0, 0, 1, 1, 2, 3, 4]
    assert (spec.experts, spec.slots, spec.key, spec.soft) == (5, 7, "06", True)
