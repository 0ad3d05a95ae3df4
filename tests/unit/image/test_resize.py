"""resize by hand-made numbers, its dtypes, and arrays that OpenCV would not take."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.unit.image.pictures import photo


def row(*levels: float) -> np.ndarray:
    return np.array(levels, np.float32).reshape(1, -1, 1)


def test_bilinear_has_pixels_at_halves() -> None:
    assert ps.image.resize(row(0, 100), (1, 4)).ravel().tolist() == [0, 25, 75, 100]
    assert ps.image.resize(row(0, 10, 20, 30), (1, 2)).ravel().tolist() == [5, 25]


def test_bytes_are_not_rounded() -> None:
    image = np.array([[[0], [1]]], np.uint8)
    result = ps.image.resize(image, (1, 8))
    assert result.dtype == np.float32
    assert result.ravel().tolist() == [0, 0, 0.125, 0.375, 0.625, 0.875, 1, 1]


def test_area_is_the_mean() -> None:
    assert ps.image.resize(row(0, 10, 20, 60), (1, 2), "area").ravel().tolist() == [5, 40]
    np.testing.assert_allclose(ps.image.resize(row(0, 30, 60), (1, 2), "area").ravel(), [10, 50], rtol=1e-6)
    np.testing.assert_allclose(ps.image.resize(row(0, 30), (1, 3), "area").ravel(), [0, 15, 30], rtol=1e-6)


def test_infinities_stay_in_the_pixels_that_cover_them() -> None:
    inf = np.inf
    assert ps.image.resize(row(1, inf, 1), (1, 6), "area").ravel().tolist() == [1, 1, inf, inf, 1, 1]
    assert ps.image.resize(row(inf, 1, 1, -inf), (1, 5), "area").ravel().tolist() == [inf, inf, 1, -inf, -inf]
    assert np.isnan(ps.image.resize(row(inf, -inf), (1, 3), "area").ravel()).tolist() == [False, True, False]
    assert ps.image.resize(row(1, inf, 1), (1, 3)).ravel().tolist() == [1, inf, 1]


def test_nearest_keeps_the_dtype() -> None:
    for dtype in (np.uint8, np.int64, np.float16, np.float64):
        image = np.arange(6, dtype=dtype).reshape(2, 3, 1)
        result = ps.image.resize(image, (4, 3), "nearest")
        assert result.dtype == dtype
        assert result[..., 0].tolist() == [[0, 1, 2], [0, 1, 2], [3, 4, 5], [3, 4, 5]]


def test_antialias_looks_at_every_pixel() -> None:
    image = np.zeros((1, 100, 1), np.uint8)
    image[0, 13] = 200
    assert ps.image.resize(image, (1, 10)).max() == 0
    assert ps.image.resize(image, (1, 10), antialias=True).max() > 5
    flat = ps.image.resize(np.full((31, 17, 3), 7, np.uint8), (5, 9), antialias=True)
    np.testing.assert_allclose(flat, 7, rtol=1e-6)


@pytest.mark.parametrize("method", ["bilinear", "area"])
def test_a_large_photograph_is_never_all_floats(method: str) -> None:
    image = np.zeros((2000, 2000, 3), np.uint8)
    ps.image.resize(image, (100, 100), method)
    tracemalloc.start()
    try:
        ps.image.resize(image, (100, 100), method)
        assert tracemalloc.get_traced_memory()[1] < image.nbytes
    finally:
        tracemalloc.stop()


def test_the_same_size_gives_the_same_levels() -> None:
    image = photo(9, 7)
    for method in ("bilinear", "area", "nearest"):
        np.testing.assert_array_equal(ps.image.resize(image, (9, 7), method), image)


@pytest.mark.parametrize("method", ["bilinear", "area", "nearest"])
def test_a_batch_is_its_images(method: str) -> None:
    batch = np.stack([photo(9, 7, seed=i) for i in range(3)])
    result = ps.image.resize(batch, (4, 11), method)
    np.testing.assert_array_equal(result, np.stack([ps.image.resize(image, (4, 11), method) for image in batch]))
    assert ps.image.resize(batch[:0], (4, 11), method).shape == (0, 4, 11, 3)


@pytest.mark.parametrize("channels", [1, 2, 4, 5, 9])
def test_any_number_of_channels_and_any_strides(channels: int) -> None:
    image = np.random.default_rng(0).random((8, 10, channels))
    expected = ps.image.resize(image, (5, 6))
    assert expected.shape == (5, 6, channels)
    for view in (image[::-1][::-1], np.asfortranarray(image), np.repeat(image, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(ps.image.resize(view, (5, 6)), expected)
    each = [ps.image.resize(image[..., i : i + 1], (5, 6)) for i in range(channels)]
    np.testing.assert_allclose(np.concatenate(each, axis=2), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ps.image.resize(photo(4, 4), (0, 3)),
        lambda: ps.image.resize(photo(4, 4), (3, 3, 3)),
        lambda: ps.image.resize(photo(4, 4), (3, 3), "bicubic"),
        lambda: ps.image.resize(photo(4, 4)[0], (3, 3)),
        lambda: ps.image.resize(np.zeros((0, 4, 3)), (3, 3)),
    ],
)
def test_arguments_are_checked(call: Any) -> None:
    with pytest.raises(ps.errors.BadArgument, match="expected"):
        call()


def test_encoded_images_are_not_pixels() -> None:
    with pytest.raises(ps.errors.BadType, match=r"encoded images are read by ps\.image\.decode_image"):
        ps.image.resize(b"\xff\xd8", (3, 3))
