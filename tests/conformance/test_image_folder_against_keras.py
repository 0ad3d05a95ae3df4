"""from_image_folder: the files, labels, names and pixels that Keras finds in a folder of classes."""

from pathlib import Path

import keras
import numpy as np
import pytest

import penstock as ps

NAMES = ("b/2.png", "b/10.png", "b/sub/1.PNG", "b/sub-a/1.png", "a/x.png", "a/y.txt", "c/.keep", "top.png", ".h/z.png")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for i, name in enumerate(NAMES):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(ps.image.encode_png(rng.integers(0, 256, (20 + i, 30, 3), dtype=np.uint8)))
    return tmp_path


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest", "area"])
def test_the_same_images_in_the_same_order(root: Path, interpolation: str) -> None:
    theirs = keras.utils.image_dataset_from_directory(
        str(root), shuffle=False, batch_size=None, image_size=(16, 24), interpolation=interpolation, verbose=False
    )
    ours = ps.Dataset.from_image_folder(root, image_size=(16, 24), interpolation=interpolation)
    assert list(ours.class_names) == theirs.class_names
    expected, found = list(theirs.as_numpy_iterator()), list(ours)
    assert [int(label) for _, label in found] == [int(label) for _, label in expected]
    assert len(found) == len(expected) == 5
    for (a, _), (b, _) in zip(found, expected, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, atol=1e-3)


def test_the_same_classes_in_an_order_of_ones_own(root: Path) -> None:
    theirs = keras.utils.image_dataset_from_directory(
        str(root), shuffle=False, batch_size=None, class_names=["b", "a", "c"], color_mode="grayscale", verbose=False
    )
    ours = ps.Dataset.from_image_folder(root, (256, 256), class_names=["b", "a", "c"], channels=1)
    expected, found = list(theirs.as_numpy_iterator()), list(ours)
    assert [int(label) for _, label in found] == [int(label) for _, label in expected] == [0, 0, 0, 0, 1]
    for (a, _), (b, _) in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
