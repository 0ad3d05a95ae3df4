"""ps.image beside tf.image and tf.io: the same files and arrays, the same pixels."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.unit.image.pictures import chunk, gifs, jpeg, photo, png_of_rows, pngs, saved

from .oracle_tf import tf

pytestmark = pytest.mark.timeout(60)

DTYPES = (np.uint8, np.uint16, np.float32)
SHAPES = ((7, 11, 3), (8, 6, 1), (1, 1, 3), (2, 9, 5, 3))


def array(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """An image whose levels fill the range of its dtype."""
    levels = np.random.default_rng(seed).random(shape)
    if np.dtype(dtype).kind == "f":
        return levels.astype(dtype)
    return levels > 0.5 if dtype is np.bool_ else (levels * np.iinfo(dtype).max).astype(dtype)


def assert_same(ours: np.ndarray, theirs: Any, tolerance: float = 0.0) -> None:
    theirs = theirs.numpy()
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    if tolerance == 0.0:
        np.testing.assert_array_equal(ours, theirs)
    else:
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), rtol=0, atol=tolerance)


def step(dtype: Any) -> float:
    """What float rounding may change: one level of an integer, a few last digits of a float."""
    return 1.0 if np.dtype(dtype).kind in "ui" else 2e-6


# --- JPEG ---


@pytest.mark.parametrize("dct_method", ["INTEGER_ACCURATE", "INTEGER_FAST"])
@pytest.mark.parametrize("fancy_upscaling", [True, False])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("size", [(75, 100), (37, 51), (1, 1), (16, 16)])
def test_jpeg(size: tuple[int, int], subsampling: int, fancy_upscaling: bool, dct_method: str) -> None:
    contents = jpeg(photo(*size), subsampling=subsampling)
    options: dict[str, Any] = {"fancy_upscaling": fancy_upscaling, "dct_method": dct_method}
    for channels in (0, 1, 3):
        ours = ps.image.decode_jpeg(contents, channels, **options)
        assert_same(ours, tf.io.decode_jpeg(contents, channels, **options))


@pytest.mark.parametrize("kind", ["gray", "cmyk", "inverted cmyk", "progressive", "rotated by EXIF"])
def test_kinds_of_jpeg(kind: str) -> None:
    from PIL import Image

    colors = Image.fromarray(photo(37, 51))
    exif = Image.Exif()
    exif[0x0112] = 6
    contents = {
        "gray": lambda: jpeg(photo(37, 51, 1)),
        "cmyk": lambda: without_adobe_marker(jpeg(colors.convert("CMYK"))),
        "inverted cmyk": lambda: jpeg(colors.convert("CMYK")),
        "progressive": lambda: jpeg(colors, progressive=True),
        "rotated by EXIF": lambda: jpeg(colors, exif=exif),
    }[kind]()
    for channels in (0, 3):
        theirs = tf.io.decode_jpeg(contents, channels, dct_method="INTEGER_ACCURATE")
        assert_same(ps.image.decode_jpeg(contents, channels), theirs)


def without_adobe_marker(contents: bytes) -> bytes:
    place = contents.index(b"\xff\xee")
    return contents[:place] + contents[place + 2 + int.from_bytes(contents[place + 2 : place + 4], "big") :]


def test_tensorflows_default_is_the_fast_method() -> None:
    contents = jpeg(photo(75, 100))
    theirs = tf.io.decode_jpeg(contents)
    assert_same(ps.image.decode_jpeg(contents, dct_method="INTEGER_FAST"), theirs)
    difference = np.abs(ps.image.decode_jpeg(contents).astype(int) - theirs.numpy())
    assert 1 <= difference.max() <= 8
    assert difference.mean() < 1.5


@pytest.mark.parametrize("ratio", [2, 4, 8])
@pytest.mark.parametrize("size", [(75, 100), (37, 51), (9, 16), (33, 17)])
def test_smaller_jpeg(size: tuple[int, int], ratio: int) -> None:
    contents = jpeg(photo(*size))
    theirs = tf.io.decode_jpeg(contents, ratio=ratio, dct_method="INTEGER_ACCURATE")
    assert_same(ps.image.decode_jpeg(contents, ratio=ratio), theirs)


def test_crop_of_a_jpeg() -> None:
    """Equal but for the window's right edge, where TensorFlow knows no neighbour to smooth colours with."""
    contents = jpeg(photo(75, 100))
    for window in ((10, 20, 30, 41), (0, 0, 75, 100), (40, 61, 35, 39)):
        theirs = tf.io.decode_and_crop_jpeg(contents, window, dct_method="INTEGER_ACCURATE").numpy()
        ours = ps.image.decode_and_crop_jpeg(contents, window)
        assert ours.shape == theirs.shape
        np.testing.assert_array_equal(ours[:, :-1], theirs[:, :-1])
    with pytest.raises(ValueError, match="part of an image of height 75, got 80 from 0 on"):
        ps.image.decode_and_crop_jpeg(contents, (0, 0, 80, 10))
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.decode_and_crop_jpeg(contents, (0, 0, 80, 10))


# --- PNG, BMP, GIF ---

FEW_BITS = {"2-bit gray", "4-bit gray", "black and white", "small palette"}


@pytest.mark.parametrize("kind", sorted(pngs()))
def test_png(kind: str) -> None:
    contents = pngs()[kind]
    for dtype in (np.uint8, np.uint16):
        for channels in (0, 1, 3, 4):
            theirs = tf.io.decode_png(contents, channels, dtype)
            ours = ps.image.decode_png(contents, channels, dtype)
            if channels == 4 and kind in FEW_BITS:
                # TensorFlow's alpha is the largest of the file's few bits, 15 of 255: almost transparent.
                assert ours[..., 3].min() == np.iinfo(dtype).max
                ours, theirs = ours[..., :3], theirs[..., :3]
            assert_same(ours, theirs)


def test_a_gamma_is_ignored_where_colours_become_grey() -> None:
    """docs/differences.md: libpng mixes colours in linear light if a file says its gamma, as many do."""
    rows = [row.tobytes() for row in np.random.default_rng(0).integers(0, 256, (11, 39), dtype=np.uint8)]
    plain, said = (
        png_of_rows(rows, 13, 8, 2, extra=extra) for extra in (b"", chunk(b"gAMA", (45455).to_bytes(4, "big")))
    )
    for channels in (0, 3, 4):
        assert_same(ps.image.decode_png(said, channels), tf.io.decode_png(said, channels))
    np.testing.assert_array_equal(ps.image.decode_png(said, 1), ps.image.decode_png(plain, 1))
    assert not np.array_equal(tf.io.decode_png(said, 1), tf.io.decode_png(plain, 1))


def test_what_we_encode_tensorflow_reads() -> None:
    for dtype in (np.uint8, np.uint16):
        for channels in (1, 2, 3, 4):
            pixels = array((7, 9, channels), dtype)
            contents = ps.image.encode_png(pixels)
            np.testing.assert_array_equal(tf.io.decode_png(contents, dtype=dtype).numpy(), pixels)
            theirs = tf.io.encode_png(pixels).numpy()
            np.testing.assert_array_equal(ps.image.decode_png(theirs, dtype=dtype), pixels)
    for channels in (1, 3):
        pixels = photo(40, 50, channels)
        contents = ps.image.encode_jpeg(pixels)
        theirs = tf.io.decode_jpeg(contents).numpy().astype(int)
        assert theirs.shape == pixels.shape
        assert np.abs(theirs - pixels).mean() < 5


@pytest.mark.parametrize("kind", ["rgb", "rgba", "gray"])
def test_bmp(kind: str) -> None:
    contents = saved(photo(7, 9, {"rgb": 3, "rgba": 4, "gray": 1}[kind]), "BMP")
    for channels in (0, 3, 4):
        assert_same(ps.image.decode_bmp(contents, channels), tf.io.decode_bmp(contents, channels))
        assert_same(ps.image.decode_image(contents, channels), tf.io.decode_image(contents, channels))


@pytest.mark.parametrize("kind", sorted(gifs()))
def test_gif(kind: str) -> None:
    contents = gifs()[kind]
    assert_same(ps.image.decode_gif(contents), tf.io.decode_gif(contents))
    for expand in (True, False):
        ours = ps.image.decode_image(contents, expand_animations=expand)
        assert_same(ours, tf.io.decode_image(contents, expand_animations=expand))


def test_files_of_another_format() -> None:
    """A GIF of one frame is an image, and an image a GIF of one frame."""
    still, moving = saved(photo(7, 9, 3), "GIF"), max(gifs().values(), key=len)
    assert len(ps.image.decode_gif(moving)) > 1
    for name in ("decode_jpeg", "decode_png"):
        ours, theirs = getattr(ps.image, name), getattr(tf.io, name)
        assert_same(ours(still), theirs(still))
        assert_same(ours(still, 3), theirs(still, 3))
        with pytest.raises(ps.errors.BadArgument, match="channels: expected 0 or 3 for a GIF, got 1"):
            ours(still, 1)
        with pytest.raises(ps.errors.FormatError, match="expected one image, got a GIF of"):
            ours(moving)
        for contents, channels in ((still, 1), (moving, 0)):
            with pytest.raises(tf.errors.InvalidArgumentError):
                theirs(contents, channels)
    assert_same(ps.image.decode_png(still, dtype=np.uint16), tf.io.decode_png(still, dtype=tf.uint16))
    for contents in pngs().values():
        assert_same(ps.image.decode_gif(contents), tf.io.decode_gif(contents))
    for channels in (1, 3):
        contents = saved(photo(40, 50, channels), "JPEG")
        ours, theirs = ps.image.decode_gif(contents), tf.io.decode_gif(contents).numpy()
        assert ours.shape == theirs.shape
        assert np.abs(ours.astype(int) - theirs).max() <= 4


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_any_image(dtype: Any) -> None:
    deep = pngs()["16-bit rgb"]
    for contents in (saved(photo(7, 9), "PNG"), deep, saved(photo(7, 9), "BMP"), gifs()["one frame"]):
        ours = ps.image.decode_image(contents, 3, dtype)
        assert_same(ours, tf.io.decode_image(contents, 3, dtype), 1e-7 if dtype is np.float32 else 0.0)
    contents = jpeg(photo(7, 9))
    accurate = tf.io.decode_jpeg(contents, dct_method="INTEGER_ACCURATE")
    theirs = tf.image.convert_image_dtype(accurate, dtype)
    assert_same(ps.image.decode_image(contents, dtype=dtype), theirs, 1e-7 if dtype is np.float32 else 0.0)


def test_formats_may_be_misnamed() -> None:
    assert_same(ps.image.decode_jpeg(pngs()["rgb"]), tf.io.decode_jpeg(pngs()["rgb"]))
    contents = jpeg(photo(7, 9, 1))
    assert ps.image.decode_png(contents).shape == tf.io.decode_png(contents).shape == (7, 9, 1)


# --- resize ---

SIZES = [(5, 7), (16, 20), (7, 11), (1, 1), (3, 40), (40, 3), (23, 29)]


@pytest.mark.parametrize("method", ["bilinear", "nearest", "area"])
@pytest.mark.parametrize("dtype", [*DTYPES, np.float16, np.float64, np.int32])
def test_resize(method: str, dtype: Any) -> None:
    for shape in ((7, 11, 3), (16, 20, 1), (2, 9, 5, 4), (6, 6, 7), (1, 1, 3)):
        images = array(shape, dtype) if dtype is not np.int32 else array(shape, np.uint8).astype(np.int32)
        for size in SIZES:
            ours = ps.image.resize(images, size, method)
            theirs = tf.image.resize(images, size, method)
            assert_same(ours, theirs, 2e-5 * max(1.0, float(images.max())) if method == "area" else 0.0)


@pytest.mark.parametrize("shape", [(375, 500, 3), (120, 90, 3), (224, 224, 1)])
def test_resize_of_photographs(shape: tuple[int, ...]) -> None:
    image = photo(*shape)
    for size in ((224, 224), (100, 333), (500, 500)):
        assert_same(ps.image.resize(image, size, "area"), tf.image.resize(image, size, "area"), 0.02)
        for method in ("bilinear", "nearest"):
            assert_same(ps.image.resize(image, size, method), tf.image.resize(image, size, method))
        ours = ps.image.resize(image, size, antialias=True)
        assert_same(ours, tf.image.resize(image, size, antialias=True), 0.02)


@pytest.mark.parametrize("method,tolerance", [("bilinear", 0.0), ("area", 0.02)])
def test_resize_of_large_photographs(method: str, tolerance: float) -> None:
    """For "area" they take another way, which needs less memory."""
    image = photo(1500, 1000)
    for size in ((224, 224), (750, 333), (100, 1200)):
        assert_same(ps.image.resize(image, size, method), tf.image.resize(image, size, method), tolerance)


def test_nearest_neighbours_of_many_sizes() -> None:
    for num_in in (1, 2, 3, 5, 7, 10, 31, 100):
        row = np.arange(num_in, dtype=np.int32).reshape(1, num_in, 1)
        for num_out in range(1, 64):
            assert_same(ps.image.resize(row, (1, num_out), "nearest"), tf.image.resize(row, (1, num_out), "nearest"))


@pytest.mark.parametrize("size", [(5, 7), (7, 5), (100, 3), (25, 30), (1, 1), (14, 22), (3, 100)])
def test_resize_that_keeps_proportions(size: tuple[int, int]) -> None:
    for shape in ((10, 12, 3), (7, 11, 3), (2, 31, 17, 1)):
        images = array(shape, np.uint8)
        for antialias in (False, True):
            options: dict[str, Any] = {"preserve_aspect_ratio": True, "antialias": antialias}
            assert_same(ps.image.resize(images, size, **options), tf.image.resize(images, size, **options), 1e-3)


# --- dtypes and colours ---

ALL_DTYPES = (np.uint8, np.int8, np.uint16, np.int16, np.int32, np.float16, np.float32, np.float64)


@pytest.mark.parametrize("target", ALL_DTYPES)
@pytest.mark.parametrize("source", ALL_DTYPES)
def test_convert_image_dtype(source: Any, target: Any) -> None:
    # TensorFlow computes in float16, where 2**16 is infinite; here it is float32.
    if (source, target) in ((np.float16, np.uint16), (np.float16, np.int32), (np.int32, np.float16)):
        assert np.isfinite(ps.image.convert_image_dtype(array((5, 7, 3), source), target)).all()
        return
    image = array((5, 7, 3), source)
    for saturate in (False, True):
        ours = ps.image.convert_image_dtype(image, target, saturate)
        theirs = tf.image.convert_image_dtype(image, target, saturate)
        exact = np.dtype(source).kind in "ui" or np.dtype(target).kind == "f"
        assert_same(ours, theirs, 1e-3 if target is np.float16 else 0.0 if exact else 1.0)


def test_saturation() -> None:
    image = np.array([[[-0.5], [0.0], [0.3], [1.0], [7.0], [1e9]]], np.float32)
    for dtype in (np.uint8, np.uint16, np.int16, np.int32):
        ours = ps.image.convert_image_dtype(image, dtype, saturate=True)
        assert_same(ours, tf.image.convert_image_dtype(image, dtype, saturate=True))
    negative = np.array([[[-128], [-1], [127]]], np.int8)
    for dtype in (np.uint8, np.uint16):
        ours = ps.image.convert_image_dtype(negative, dtype, saturate=True)
        assert_same(ours, tf.image.convert_image_dtype(negative, dtype, saturate=True))


@pytest.mark.parametrize("dtype", [*DTYPES, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_colors_and_levels(shape: tuple[int, ...], dtype: Any) -> None:
    images = array(shape, dtype)
    if shape[-1] == 3:
        assert_same(ps.image.rgb_to_grayscale(images), tf.image.rgb_to_grayscale(images), step(dtype))
    elif dtype is not np.uint16:  # which TensorFlow does not know here
        assert_same(ps.image.grayscale_to_rgb(images), tf.image.grayscale_to_rgb(tf.constant(images)))
    for delta in (-0.3, 0.0, 0.1, 0.9):
        ours = ps.image.adjust_brightness(images, delta)
        assert_same(ours, tf.image.adjust_brightness(images, delta), step(dtype))
    for factor in (0.0, 0.4, 1.0, 3.0):
        ours = ps.image.adjust_contrast(images, factor)
        assert_same(ours, tf.image.adjust_contrast(images, factor), step(dtype))
    assert_same(ps.image.per_image_standardization(images), tf.image.per_image_standardization(images), 2e-5)


def test_standardization_of_one_color() -> None:
    for dtype in [*DTYPES, np.float16]:
        flat = np.full((4, 4, 3), 7, dtype)
        assert_same(ps.image.per_image_standardization(flat), tf.image.per_image_standardization(flat), 1e-5)


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (2, 0, 0, 3)])
def test_images_without_pixels(shape: tuple[int, ...]) -> None:
    images = np.zeros(shape, np.float32)
    assert_same(ps.image.adjust_contrast(images, 2.0), tf.image.adjust_contrast(images, 2.0))
    with pytest.raises(ValueError, match="must be > 0"):
        tf.image.per_image_standardization(images)
    with pytest.raises(ps.errors.BadArgument, match="one with pixels, got shape"):
        ps.image.per_image_standardization(images)


# --- parts and mirrors ---


@pytest.mark.parametrize("dtype", [*DTYPES, np.int64, np.float16, np.bool_])
@pytest.mark.parametrize("shape", [*SHAPES, (3, 4, 6), (5, 4, 3, 1)])
def test_parts_and_mirrors(shape: tuple[int, ...], dtype: Any) -> None:
    images = array(shape, dtype)
    assert_same(ps.image.flip_left_right(images), tf.image.flip_left_right(images))
    assert_same(ps.image.flip_up_down(images), tf.image.flip_up_down(images))
    for fraction in (1.0, 0.9, 0.5, 0.33):
        assert_same(ps.image.central_crop(images, fraction), tf.image.central_crop(images, fraction))
    height, width = shape[-3:-1]
    for box in ((0, 0, height, width), (height // 2, width // 3, 1, 1), (0, width - 1, height, 1)):
        assert_same(ps.image.crop_to_bounding_box(images, *box), tf.image.crop_to_bounding_box(images, *box))


@pytest.mark.parametrize(
    "call",
    [
        lambda image, x: image.central_crop(x, 0.0),
        lambda image, x: image.central_crop(x, 1.5),
        lambda image, x: image.crop_to_bounding_box(x, 0, 0, 9, 2),
        lambda image, x: image.crop_to_bounding_box(x, -1, 0, 2, 2),
        lambda image, x: image.crop_to_bounding_box(x, 0, 0, 0, 2),
        lambda image, x: image.resize(x, (0, 3)),
        lambda image, x: image.resize(x, (3,)),
        lambda image, x: image.resize(x, (3, 3), "best"),
        lambda image, x: image.resize(x[0], (3, 3)),
        lambda image, x: image.rgb_to_grayscale(x[..., :2]),
        lambda image, x: image.grayscale_to_rgb(x),
    ],
)
def test_both_refuse(call: Any) -> None:
    image = np.zeros((4, 5, 3), np.uint8)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        call(tf.image, tf.constant(image))
    with pytest.raises(ps.errors.PlanError):
        call(ps.image, image)
