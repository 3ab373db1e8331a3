import pytest
import torch

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
