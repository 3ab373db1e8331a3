import pytest
import torch

from routelab.capture import CaptureOptions, capture
from tests.capture.small import make_checkpoint, make_folder


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    """Checkpoint of a router kind, made once."""
    folder, made = tmp_path_factory.mktemp("checkpoints"), {}

    def checkpoint(kind="soft"):
        if kind not in made:
            made[kind] = make_checkpoint(folder, kind)
        return made[kind]

    return checkpoint


@pytest.fixture(scope="session")
def captured(checkpoints, images, tmp_path_factory):
    """Report of a full capture by a router kind, made once; for tests that only read."""
    folder, made = tmp_path_factory.mktemp("captured"), {}

    def report(kind="soft"):
        if kind not in made:
            made[kind] = capture(
                CaptureOptions(
                    checkpoint=checkpoints(kind),
                    data=str(images),
                    out=folder / f"{kind}.zarr",
                    batch_size=8,
                    shard=16,
                    full="all",
                    features="tokens",
                    verify=True,
                )
            )
        return made[kind]

    return report
