"""What does a run consist of? Start, MoE layers, data, recipe and what is kept, as one value."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from routelab.records import MoESpec, Record, Refusal, Transform
from routelab.training.faults import accepted
from routelab.training.named import recipe_named
from routelab.training.recipe import Recipe


class Start(Record):
    """A checkpoint, or an architecture of timm with fresh weights."""

    checkpoint: str = Field(default="", description="a .safetensors file with its card")
    architecture: str = Field(
        default="", description="of timm; beside a checkpoint, what that must be"
    )
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="keyword arguments of timm.create_model, from scratch"
    )
    transform: Transform = Field(
        default=Transform(size=224), description="how pixels are made, from scratch"
    )
    optimizer: str = Field(
        default="",
        description="a run of the dense model, whose AdamW moments go on, in copies too",
    )
    new_head: bool = Field(
        default=False, description="a fresh classifier for the data's classes, on a checkpoint"
    )


class DataChoice(Record):
    """Which images train and which validate."""

    source: str = Field(default="", description="a folder of CLASS/image, or a name")
    split: str = Field(default="train", description="training part; empty for a plain folder")
    validation: str = Field(default="", description="validation part; empty: none")
    limit: int | None = Field(
        default=None, ge=1, description="only so many training images, drawn from all"
    )
    validation_limit: int | None = Field(
        default=None, ge=1, description="only so many validation images, drawn from all"
    )
    memory: bool = Field(default=True, description="decode once and keep; not with pictures")
    workers: int = Field(default=2, ge=0, description="processes that decode pictures")


class Keeping(Record):
    """What is written, and how often."""

    state_updates: int = Field(
        default=0, ge=0, description="updates between two states; one an epoch is always kept"
    )
    epochs: int = Field(default=0, ge=0, description="keep the checkpoint of every n-th epoch")
    log_updates: int = Field(default=10, ge=1, description="updates between two lines of the log")
    snapshots: int = Field(default=1, ge=0, description="epochs between routing snapshots; 0: none")
    probe: int = Field(default=256, ge=1, description="images that snapshots look at")
    tensorboard: bool = Field(default=False, description="needs routelab[training]")


class RunConfig(Record):
    """A run of `routelab train`."""

    start: Start = Start()
    moe: MoESpec | None = Field(
        default=None, description="layers that are made by copying the dense ones"
    )
    data: DataChoice = DataChoice()
    recipe: Recipe = Recipe()
    keep: Keeping = Keeping()
    device: str = "cpu"


class Key(NamedTuple):
    """One key of a configuration: dotted name, default, and what it means."""

    name: str
    default: Any
    says: str


def described_keys(section: Record | None = None, above: str = "") -> Iterator[Key]:
    """Every key of a run's configuration that can be set by itself, in order."""
    section = RunConfig() if section is None else section
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, Record):
            yield from described_keys(value, f"{above}{name}.")
        else:
            yield Key(f"{above}{name}", value, field.description or "")


def read_config(
    path: Path | None = None,
    *,
    recipe: str = "",
    values: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
) -> RunConfig:
    """A run's configuration, from a file, a named recipe and single settings, the later wins.

    Parameters
    ----------
    path
        A `.toml` or `.json` file with the sections of `RunConfig`; its `recipe.base` names the
        recipe that the others of its section change.
    recipe
        Name of a recipe, instead of `recipe.base`.
    values
        Sections like those of a file.
    settings
        `section.key=value`, the value as in TOML or a bare word; a key of the recipe needs no
        section.

    Raises
    ------
    Refusal
        No such file or recipe, no TOML, or a key or value that is not accepted.
    """
    values = merged({} if path is None else _read(path), values or {})
    for setting in settings:
        _set(values, setting)
    section = values.setdefault("recipe", {})
    if not isinstance(section, dict):
        raise Refusal(f'recipe is {section!r}, not a section; write [recipe] and base = "NAME"')
    base = section.pop("base", "")
    name = recipe or base
    if name:
        values["recipe"] = merged(recipe_named(name), section)
    return accepted(RunConfig, values, str(path) if path is not None else "the settings")


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """New values of both, nested; those above win."""
    both = copy.deepcopy(dict(below))
    for key, value in above.items():
        old = both.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            both[key] = merged(old, value)
        else:
            both[key] = copy.deepcopy(value)
    return both


def first_difference(old: RunConfig, new: RunConfig) -> tuple[str, Any, Any] | None:
    """Dotted name of the first field that differs, and its two values."""
    return _differing(old.model_dump(mode="json"), new.model_dump(mode="json"), "")


def _differing(old: Any, new: Any, name: str) -> tuple[str, Any, Any] | None:
    if old == new:
        return None
    if not isinstance(old, dict) or not isinstance(new, dict):
        return name, old, new
    for key in (*old, *(key for key in new if key not in old)):
        found = _differing(old.get(key), new.get(key), f"{name}.{key}" if name else key)
        if found is not None:
            return found
    return None


def _read(path: Path) -> dict[str, Any]:
    """The tables of a TOML or JSON file."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"configuration {path} cannot be read ({error}); check the path") from error
    try:
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise Refusal(f"configuration {path} is not {path.suffix[1:].upper()}: {error}") from error
    if not isinstance(values, dict):
        raise Refusal(f"configuration {path} is not a table of sections")
    return values


def _set(values: dict[str, Any], setting: str) -> None:
    """Put one `section.key=value` into nested values."""
    name, equals, text = setting.partition("=")
    parts = [part.strip() for part in name.split(".")]
    if not equals or not all(parts):
        raise Refusal(f'--set "{setting}" is not key=value; write for example recipe.epochs=30')
    if parts[0] not in RunConfig.model_fields and parts[0] in {*Recipe.model_fields, "base"}:
        parts = ["recipe", *parts]
    for part in parts[:-1]:
        inner = values.setdefault(part, {})
        if not isinstance(inner, dict):
            raise Refusal(f'--set "{setting}": {part} is {inner!r} and holds no keys')
        values = inner
    values[parts[-1]] = _value(text.strip())


def _value(text: str) -> Any:
    """A value of TOML, or the word itself; `none` is no value."""
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
