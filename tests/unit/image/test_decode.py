"""Decoding without TensorFlow: the reference library's pixels, what we encode ourselves, unusual files."""

import io
from typing import Any

import numpy as np
import pytest
import simplejpeg
from PIL import Image

import penstock as ps
from tests.unit.image.pictures import jpeg, photo, pngs, saved


@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_jpeg_is_the_reference_librarys(subsampling: int) -> None:
    contents = jpeg(photo(75, 101), subsampling=subsampling)
    pixels = ps.image.decode_jpeg(contents)
    np.testing.assert_array_equal(pixels, simplejpeg.decode_jpeg(contents))
    np.testing.assert_array_equal(pixels, np.asarray(Image.open(io.BytesIO(contents))))


@pytest.mark.parametrize("kind", ["rgb", "rgba", "gray", "gray alpha"])
def test_png_is_the_reference_librarys(kind: str) -> None:
    contents = pngs()[kind]
    expected = np.asarray(Image.open(io.BytesIO(contents)))
    np.testing.assert_array_equal(ps.image.decode_png(contents), expected.reshape(*expected.shape[:2], -1))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("compression", [-1, 0, 9])
def test_png_there_and_back(channels: int, dtype: Any, compression: int) -> None:
    pixels = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (6, 5, channels), dtype, endpoint=True)
    np.testing.assert_array_equal(ps.image.decode_png(ps.image.encode_png(pixels, compression), dtype=dtype), pixels)


def test_jpeg_there_and_back() -> None:
    for channels in (1, 3):
        pixels = photo(64, 48, channels)
        smaller = ps.image.encode_jpeg(pixels, quality=50)
        contents = ps.image.encode_jpeg(pixels[:, ::-1], quality=100, chroma_downsampling=False)  # a view is fine
        back = ps.image.decode_jpeg(contents)
        assert len(smaller) < len(contents)
        assert back.shape == pixels.shape
        assert np.abs(back.astype(int) - pixels[:, ::-1]).max() <= 4


def test_orientation_is_ignored() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels = photo(20, 30)
    for kind, decode in (("JPEG", ps.image.decode_jpeg), ("PNG", ps.image.decode_png)):
        turned, plain = saved(pixels, kind, exif=exif), saved(pixels, kind)
        np.testing.assert_array_equal(decode(turned), decode(plain))


def test_interlaced_png() -> None:
    """Written by hand, as neither Pillow nor OpenCV writes one: a single pixel is all in the first pass."""
    import struct
    import zlib

    from tests.unit.image.pictures import chunk

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 1)
    contents = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0\x01\x02\x03"))
        + chunk(b"IEND", b"")
    )
    assert ps.image.decode_png(contents).tolist() == [[[1, 2, 3]]]


def test_colors_at_an_unusual_resolution() -> None:
    """Four rows of light to one of colour, for which simplejpeg has no name."""
    import cv2

    sampling = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, 0x141111]
    pixels = photo(64, 48)
    _, encoded = cv2.imencode(".jpg", pixels[..., ::-1], [*sampling, cv2.IMWRITE_JPEG_QUALITY, 95])
    back = ps.image.decode_jpeg(encoded.tobytes())
    assert back.shape == pixels.shape
    assert np.abs(back.astype(int) - pixels).mean() < 8


def test_bmp_with_a_palette_and_from_the_top() -> None:
    colors = Image.fromarray(photo(9, 7)).quantize(20)
    contents = saved(colors, "BMP")
    np.testing.assert_array_equal(ps.image.decode_bmp(contents), np.asarray(colors.convert("RGB")))
    upright = saved(photo(9, 7), "BMP")
    flipped = upright[:22] + (-9).to_bytes(4, "little", signed=True) + upright[26:]
    np.testing.assert_array_equal(ps.image.decode_bmp(flipped), ps.image.decode_bmp(upright)[::-1])


def test_results_own_their_memory() -> None:
    """A view would keep a larger array alive that no budget counts."""
    contents = jpeg(photo(40, 40))
    results = [
        ps.image.decode_and_crop_jpeg(contents, (1, 2, 3, 4)),
        ps.image.central_crop(photo(40, 40), 0.5),
        ps.image.crop_to_bounding_box(photo(40, 40), 1, 2, 3, 4),
        ps.image.random_crop(photo(40, 40), (3, 4, 3), np.random.default_rng(0)),
    ]
    for result in results:
        assert result.base is None
        assert result.flags.c_contiguous


class OfTensorFlow:
    as_numpy_dtype = np.float32


def test_dtypes_of_tensorflow_and_what_is_none() -> None:
    grey = np.full((1, 1, 1), 255, np.uint8)
    assert ps.image.convert_image_dtype(grey, OfTensorFlow()).dtype == np.float32
    assert ps.image.decode_image(ps.image.encode_png(grey), dtype=OfTensorFlow()).dtype == np.float32
    with pytest.raises(ps.errors.BadType, match="dtype: expected one of NumPy's or TensorFlow's, got 'pixels'"):
        ps.image.convert_image_dtype(grey, "pixels")
