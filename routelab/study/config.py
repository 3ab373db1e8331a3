"""What is a study made of? A dense source, arms, seeds and one budget, from one TOML file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from routelab.records import MoESpec, Record, Refusal
from routelab.recycling import RecycleOptions
from routelab.training import RunConfig, accepted, merged


class Budget(Record):
    """What every run may spend; exactly one of the four."""

    updates: int | None = Field(default=None, ge=1)
    images: int | None = Field(default=None, ge=1, description="training images, with repeats")
    flops: float | None = Field(
        default=None, gt=0, description="of training: three forward passes for each image"
    )
    seconds: float | None = Field(
        default=None, gt=0, description="of training, by the pace of its first updates"
    )

    @model_validator(mode="after")
    def _one(self) -> Budget:
        if len(self.given) != 1:
            raise ValueError(
                "budget takes exactly one of updates, images, flops and seconds, not "
                f"{len(self.given)}"
            )
        return self

    @property
    def given(self) -> dict[str, float]:
        """The one that is set, by name."""
        return {name: value for name, value in self.model_dump().items() if value is not None}

    @property
    def says(self) -> str:
        """In words."""
        (name, value), *_ = self.given.items()
        return f"{value:,.4g} {name}" if name == "flops" else f"{value:,g} {name}"


class Source(Record):
    """The dense checkpoint that arms start from."""

    checkpoint: str = Field(description="RouteLab's, or a state dict of timm")
    model: str = Field(default="", description="timm's name, where no card says it")
    size: int | None = Field(default=None, ge=8, description="side of the input")


class Select(Record):
    """A smaller dense model made by weight selection."""

    architecture: str = Field(description="of timm, smaller than the source and of its family")
    arguments: dict[str, Any] = Field(default_factory=dict)


class Arm(Record):
    """One way to make a model: where its weights come from, and what is changed in its training.

    Without `recycle`, `select` and `scratch`, it starts from the source as it is; with `moe` its
    layers are then copies (sparse upcycling).
    """

    says: str = ""
    scratch: bool = Field(default=False, description="fresh weights, the source's architecture")
    select: Select | None = None
    recycle: RecycleOptions | None = None
    look: int = Field(
        default=512, ge=1, description="training images that recycling looks at, by class"
    )
    moe: MoESpec | None = None
    run: dict[str, Any] = Field(
        default_factory=dict, description="sections of a run that this arm changes"
    )
    share: float = Field(
        default=1.0, gt=0, description="of the budget; above 1 for a baseline that may go on"
    )

    @model_validator(mode="after")
    def _one_start(self) -> Arm:
        ways = [w for w in ("scratch", "select", "recycle") if getattr(self, w)]
        if len(ways) > 1:
            raise ValueError(f"an arm starts in one way, not by {' and '.join(ways)}")
        if self.recycle is not None and self.moe is None:
            raise ValueError("an arm that recycles needs the layers to make, in its moe")
        return self


class Study(Record):
    """Arms × seeds under one budget."""

    name: str
    says: str = ""
    source: Source
    budget: Budget
    seeds: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1)
    baseline: str
    run: dict[str, Any] = Field(description="sections of a run that all arms share")
    arms: dict[str, Arm] = Field(min_length=1)

    @model_validator(mode="after")
    def _known(self) -> Study:
        if self.baseline not in self.arms:
            raise ValueError(
                f"baseline {self.baseline!r} is no arm; the arms are {', '.join(self.arms)}"
            )
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {list(self.seeds)} must differ")
        wrong = next((n for n in self.arms if not re.fullmatch(r"[\w-]+", n, re.ASCII)), "")
        if wrong:
            raise ValueError(f"arm {wrong!r} names a folder; use letters, digits, - and _")
        return self

    def config(self, arm: str, seed: int) -> RunConfig:
        """The run of one arm with one seed; start and length are decided when it begins.

        Raises
        ------
        Refusal
            A key that does not exist, with the nearest.
        """
        values = merged(merged(self.run, self.arms[arm].run), {"recipe": {"seed": seed}})
        return accepted(RunConfig, values, f"arm {arm}")


def read_study(path: Path) -> Study:
    """A study from a TOML file, every arm checked.

    Raises
    ------
    Refusal
        No such file, no TOML, a key or value that is not accepted.
    """
    try:
        values = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"study {path} cannot be read ({error}); check the path") from error
    except ValueError as error:
        raise Refusal(f"study {path} is not TOML: {error}") from error
    study = accepted(Study, values, str(path))
    for arm in study.arms:
        config = study.config(arm, study.seeds[0])
        if not config.data.validation:
            raise Refusal(f"study {path} has no held-out images; set validation in [run.data]")
        taken = [n for n in ("start", "moe") if n in study.run or n in study.arms[arm].run]
        if taken:
            raise Refusal(
                f"study {path}: section run.{taken[0]} is made by each arm; say it in [source] or "
                "[arms.NAME.moe]"
            )
    return study
