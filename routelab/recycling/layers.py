"""Which blocks does a user mean by "6-11", "last 6" or "every other"?"""

from __future__ import annotations

from routelab.records import Refusal


def resolve_layers(text: str, blocks: int) -> tuple[int, ...]:
    """Block numbers of a model of so many blocks, in order.

    "all"; "last N"; "every other" (1, 3, 5, …, as V-MoE has it); or numbers and ranges, "6-11" or
    "6,8".

    Raises
    ------
    Refusal
        Words that are none of these, or blocks that do not exist.
    """
    words = text.strip().lower().replace("-", " ").split()
    if words == ["all"]:
        return tuple(range(blocks))
    if words == ["every", "other"]:
        return tuple(range(1, blocks, 2))
    if len(words) == 2 and words[0] == "last" and words[1].isdigit():
        last = int(words[1])
        if not 1 <= last <= blocks:
            raise Refusal(f'--layers "{text}" is out of range: the model has {blocks} blocks')
        return tuple(range(blocks - last, blocks))
    return _numbered(text, blocks)


def _numbered(text: str, blocks: int) -> tuple[int, ...]:
    numbers: set[int] = set()
    for part in filter(None, (p.strip() for p in text.split(","))):
        first, dash, last = part.partition("-")
        if not (first.isdigit() and (last if dash else first).isdigit()):
            raise Refusal(
                f'--layers "{text}" is not a list of blocks; '
                "write 6-11, 6,8, last 6, every other or all"
            )
        numbers.update(range(int(first), int(last or first) + 1))
    if not numbers:
        raise Refusal("--layers names no block; write 6-11, 6,8, last 6, every other or all")
    if max(numbers) >= blocks:
        raise Refusal(
            f'--layers "{text}" is out of range: the blocks are numbered 0 to {blocks - 1}'
        )
    return tuple(sorted(numbers))
