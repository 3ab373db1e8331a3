"""Small pictures on disk, each of one colour that says which it is."""

from pathlib import Path

from PIL import Image

from routelab.records import Transform

SMALL = Transform(size=8, mean=(0.5,), std=(0.25,), interpolation="bilinear")


def save_picture(path: Path, level: int = 100, *, size=(16, 12), mode="RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = level if mode in ("L", "P") else (level,) * len(mode)
    Image.new(mode, size, colour).save(path)
    return path


def truncate(path: Path) -> Path:
    Image.effect_noise((64, 64), 80).convert("RGB").save(path)
    path.write_bytes(path.read_bytes()[:400])
    return path
