"""Functions that draw: their laws, and that a seed decides everything."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.unit.image.pictures import jpeg, photo

IMAGE = photo(9, 7)

DRAWING: dict[str, Any] = {
    "random_crop": lambda image, rng: ps.image.random_crop(image, (4, 3, 3), rng),
    "random_flip_left_right": ps.image.random_flip_left_right,
    "random_flip_up_down": ps.image.random_flip_up_down,
    "random_brightness": lambda image, rng: ps.image.random_brightness(image, 0.3, rng),
    "random_contrast": lambda image, rng: ps.image.random_contrast(image, 0.5, 1.5, rng),
}


@pytest.mark.parametrize("name", sorted(DRAWING))
def test_a_seed_decides(name: str) -> None:
    def results(seed: int) -> list[bytes]:
        rng = np.random.default_rng(seed)
        return [DRAWING[name](IMAGE, rng).tobytes() for _ in range(20)]

    assert results(1) == results(1)
    assert results(1) != results(2)
    assert len(set(results(1))) > 1


@pytest.mark.parametrize("name", sorted(DRAWING))
def test_only_a_generator_will_do(name: str) -> None:
    for rng in (None, 7, np.random.RandomState(1)):
        with pytest.raises(ps.errors.BadType, match=r"rng: expected a numpy\.random\.Generator"):
            DRAWING[name](IMAGE, rng)


def test_random_map_hands_the_generator_over() -> None:
    def augment(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        for draw in DRAWING.values():
            image = draw(image, rng)
        return image

    ds = ps.Dataset.from_tensor_slices(np.stack([photo(9, 7, seed=i) for i in range(12)]))
    plain = list(ds.random_map(augment, seed=3).run(epoch=0))
    parallel = list(ds.random_map(augment, seed=3, num_parallel_calls=2).run(epoch=0))
    np.testing.assert_array_equal(plain, parallel)
    assert plain[0].shape == (4, 3, 3)
    assert not np.array_equal(plain, list(ds.random_map(augment, seed=4).run(epoch=0)))


def test_crops_come_from_every_place_alike() -> None:
    rng = np.random.default_rng(0)
    places = np.arange(12).reshape(3, 4)
    counts = Counter(int(ps.image.random_crop(places, (2, 2), rng)[0, 0]) for _ in range(6000))
    assert sorted(counts) == [0, 1, 2, 4, 5, 6]
    assert all(850 < count < 1150 for count in counts.values())
    np.testing.assert_array_equal(ps.image.random_crop(places, (3, 4), rng), places)


def test_every_second_image_is_flipped() -> None:
    rng = np.random.default_rng(0)
    for flip, drawn in (
        (ps.image.flip_left_right, ps.image.random_flip_left_right),
        (ps.image.flip_up_down, ps.image.random_flip_up_down),
    ):
        kinds = Counter()
        for _ in range(1000):
            result = drawn(IMAGE, rng)
            kinds["same" if np.array_equal(result, IMAGE) else "flipped"] += 1
            assert np.array_equal(result, IMAGE) or np.array_equal(result, flip(IMAGE))
        assert 430 < kinds["flipped"] < 570


def test_images_of_a_batch_have_a_chance_each() -> None:
    batch = np.stack([IMAGE] * 400)
    flipped = ps.image.flip_left_right(IMAGE)
    result = ps.image.random_flip_left_right(batch, np.random.default_rng(0))
    num_flipped = sum(np.array_equal(image, flipped) for image in result)
    num_same = sum(np.array_equal(image, IMAGE) for image in result)
    assert num_flipped + num_same == 400
    assert 150 < num_flipped < 250
    np.testing.assert_array_equal(batch, np.stack([IMAGE] * 400))


def test_deltas_and_factors_are_within_their_bounds() -> None:
    rng = np.random.default_rng(0)
    flat = np.full((1, 1, 1), 0.5, np.float32)
    deltas = np.array([float(ps.image.random_brightness(flat, 0.2, rng)[0, 0, 0]) - 0.5 for _ in range(2000)])
    assert -0.2001 <= deltas.min() < -0.19
    assert 0.19 < deltas.max() <= 0.2001
    assert abs(deltas.mean()) < 0.01
    pair = np.array([[[0.0], [1.0]]], np.float32)
    factors = np.array([float(np.ptp(ps.image.random_contrast(pair, 0.5, 2.0, rng))) for _ in range(2000)])
    assert 0.4999 <= factors.min() < 0.51
    assert 1.99 < factors.max() <= 2.0001
    assert 1.22 < factors.mean() < 1.28


@pytest.mark.parametrize(
    "call",
    [
        lambda rng: ps.image.random_crop(IMAGE, (10, 3, 3), rng),
        lambda rng: ps.image.random_crop(IMAGE, (3, 3), rng),
        lambda rng: ps.image.random_crop(IMAGE, (-1, 3, 3), rng),
        lambda rng: ps.image.random_brightness(IMAGE, -0.1, rng),
        lambda rng: ps.image.random_contrast(IMAGE, 0.5, 0.5, rng),
        lambda rng: ps.image.random_contrast(IMAGE, -0.5, 0.5, rng),
    ],
)
def test_arguments_are_checked(call: Any) -> None:
    with pytest.raises(ps.errors.BadArgument, match="expected"):
        call(np.random.default_rng(0))


def test_inputs_are_left_alone() -> None:
    """Elements may be views of a user's array, or shared with a cache."""
    for dtype in (np.uint8, np.float32):
        image = IMAGE.astype(dtype)
        image.flags.writeable = False
        rng = np.random.default_rng(0)
        for draw in DRAWING.values():
            for _ in range(4):
                draw(image, rng)
        for call in (
            lambda x: ps.image.resize(x, (3, 3)),
            lambda x: ps.image.resize(x, (3, 3), antialias=True),
            lambda x: ps.image.resize(x, (3, 3), "nearest"),
            lambda x: ps.image.adjust_contrast(x, 2.0),
            ps.image.per_image_standardization,
            ps.image.rgb_to_grayscale,
            lambda x: ps.image.convert_image_dtype(x, np.uint16, saturate=True),
        ):
            call(image)
        np.testing.assert_array_equal(image, IMAGE.astype(dtype))


def test_a_pipeline_of_files() -> None:
    encoded = [jpeg(photo(20 + i, 30, seed=i)) for i in range(6)]

    def load(contents: bytes) -> np.ndarray:
        return ps.image.resize(ps.image.decode_jpeg(contents), (8, 8)) / np.float32(255)

    ds = ps.Dataset.from_tensor_slices(np.array(encoded, dtype=object)).map(load, num_parallel_calls=2).batch(3)
    batches = list(ds.run(memory="32MB"))
    assert [batch.shape for batch in batches] == [(3, 8, 8, 3)] * 2
    assert batches[0].dtype == np.float32
    np.testing.assert_array_equal(batches[1][0], load(encoded[3]))
