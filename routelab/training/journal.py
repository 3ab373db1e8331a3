"""What is written down while a run goes on? Lines of JSON, and TensorBoard where it is wanted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from routelab.records import Refusal
from routelab.training.history import Epoch, Update
from routelab.training.safely import write_text


class Journal:
    """Appends a line an event to `log.jsonl`, whole lines only."""

    def __init__(self, log: Path, board: Any = None) -> None:
        self.log, self.board = log, board

    def add(self, event: Update | Epoch) -> None:
        """Write one event down."""
        kind = "epoch" if isinstance(event, Epoch) else "update"
        values = event.model_dump(mode="json", exclude_none=True)
        with self.log.open("a") as file:
            file.write(json.dumps({"kind": kind, **values}) + "\n")
        if self.board is not None:
            for name, value in scalars(values):
                self.board.add_scalar(f"{kind}/{name}", value, values["update"])

    def close(self) -> None:
        """Write what TensorBoard still holds."""
        if self.board is not None:
            self.board.close()


def scalars(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    """Every number of nested values with its path; the items of a list by their place."""
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            yield from scalars(value, f"{name}/")
        elif isinstance(value, list | tuple):
            yield from scalars(dict(enumerate(value)), f"{name}/")  # type: ignore[arg-type]
        elif isinstance(value, int | float):
            yield name, float(value)


def read_events(log: Path) -> list[Update | Epoch]:
    """The events of a log in order; a last line that was not finished is passed over."""
    events: list[Update | Epoch] = []
    if not log.exists():
        return events
    for line in log.read_text().splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            break
        kind = values.pop("kind")
        events.append((Epoch if kind == "epoch" else Update).model_validate(values))
    return events


def cut_log(log: Path, update: int, epochs: int) -> list[Epoch]:
    """Forget events after this update and these whole epochs; the epochs that are left."""
    kept = [
        event
        for event in read_events(log)
        if (event.epoch <= epochs if isinstance(event, Epoch) else event.update <= update)
    ]
    lines = [
        json.dumps(
            {
                "kind": "epoch" if isinstance(event, Epoch) else "update",
                **event.model_dump(mode="json", exclude_none=True),
            }
        )
        for event in kept
    ]
    write_text(log, "".join(f"{line}\n" for line in lines))
    return [event for event in kept if isinstance(event, Epoch)]


def check_tensorboard() -> None:
    """Refuse to go on without TensorBoard."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError as error:
        raise Refusal(
            "keep.tensorboard needs TensorBoard; install it with: pip install 'routelab[training]'"
        ) from error


def tensorboard_writer(folder: Path, update: int) -> Any:
    """A writer that goes on after an update."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=update + 1)
