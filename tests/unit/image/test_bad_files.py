"""Files that are damaged, hostile or no images: the documented error, nothing on stderr, nothing allocated."""

import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.unit.image.pictures import chunk, gifs, jpeg, jpeg_saying, photo, png_of_rows, pngs, saved

JPEG = jpeg(photo(75, 100))
PROGRESSIVE = jpeg(photo(75, 100), progressive=True)
PNG = saved(photo(75, 100), "PNG")
GIF = gifs()["three frames"]
BMP = saved(photo(9, 7), "BMP")
ROWS = [bytes(30)] * 10


def cuts(contents: bytes) -> list[bytes]:
    """A file that ends too early: within its header, its pixels, its last bytes."""
    return [contents[:n] for n in (4, 9, 20, 40, len(contents) // 3, len(contents) // 2, len(contents) - 1)]


TRUNCATED = [
    *[("JPEG", part) for part in [*cuts(JPEG), JPEG[:-2], JPEG[:-10]]],
    *[("progressive JPEG", part) for part in cuts(PROGRESSIVE)],
    *[("PNG", part) for part in [*cuts(PNG), PNG[:-12], PNG[:33]]],
    *[("GIF", part) for part in cuts(GIF)],
    *[("BMP", part) for part in cuts(BMP)],
]


@pytest.mark.parametrize("kind,contents", TRUNCATED, ids=[f"{kind} of {len(part)}" for kind, part in TRUNCATED])
def test_truncated(kind: str, contents: bytes, capfd: Any) -> None:
    with pytest.raises(ps.errors.FormatError, match=r"expected a .*, got "):
        ps.image.decode_image(contents)
    assert capfd.readouterr() == ("", "")


DAMAGED = {
    "a JPEG with fewer rows than it says": jpeg_saying(JPEG, 200, 100),
    "a JPEG with a marker among its pixels": JPEG[:2000] + b"\xff\xe5\x00\x08abcdef" + JPEG[2000:],
    "a JPEG with a second header among its pixels": JPEG[:2000] + b"\xff\xc0" + JPEG[2002:],
    "a JPEG without size": jpeg_saying(JPEG, 0, 0),
    "a PNG with a changed byte": PNG[:5000] + bytes([PNG[5000] ^ 1]) + PNG[5001:],
    "a PNG with a changed header": PNG[:20] + b"\x01" + PNG[21:],
    "a PNG of an unknown colour type": png_of_rows(ROWS, 10, 8, 7),
    "a PNG without size": png_of_rows(ROWS, 0, 8, 2),
    "a PNG without pixels": PNG[:33] + chunk(b"IEND", b""),
    "a PNG without its palette": png_of_rows(ROWS, 30, 8, 3),
    "a GIF with an unknown block": GIF[:-1] + b"\x77" + GIF[-1:],
    "a GIF with other pixels": GIF[:1000] + b"\xff" * 100 + GIF[1100:],
    "a GIF without frames": GIF[: 13 + 3 * 2 ** ((GIF[10] & 7) + 1)] + b";",
    "a BMP with compression": BMP[:30] + struct.pack("<I", 1) + BMP[34:],
    "a BMP of 16 bits": BMP[:28] + struct.pack("<H", 16) + BMP[30:],
    "a BMP without size": BMP[:18] + struct.pack("<i", 0) + BMP[22:],
}


@pytest.mark.parametrize("kind", sorted(DAMAGED))
def test_damaged(kind: str, capfd: Any) -> None:
    with pytest.raises(ps.errors.FormatError):
        ps.image.decode_image(DAMAGED[kind])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "compressed",
    [zlib.compress(bytes(100)), zlib.compress(bytes(310))[:-8], b"no deflate at all", zlib.compress(b"\x09" * 310)],
    ids=["few rows", "cut short", "not compressed", "unknown filter"],
)
def test_a_png_that_lies_with_right_checksums(compressed: bytes) -> None:
    """Only somebody who means it makes these: they are refused, though libpng writes a line to stderr."""
    with pytest.raises(ps.errors.FormatError, match="cannot be decompressed"):
        ps.image.decode_image(png_of_rows(ROWS, 10, 8, 2, compressed=compressed))


@pytest.mark.parametrize("decode", ["decode_image", "decode_jpeg", "decode_png", "decode_bmp", "decode_gif"])
@pytest.mark.parametrize(
    "contents,got", [(b"", "0 bytes"), (b"no image, only words", "20 bytes that begin with b'no im")]
)
def test_not_an_image(decode: str, contents: bytes, got: str, capfd: Any) -> None:
    with pytest.raises(ps.errors.FormatError, match=rf"expected a .*, got {got}"):
        getattr(ps.image, decode)(contents)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "decode,contents,text",
    [
        ("decode_jpeg", BMP, "expected a JPEG or a PNG, got a BMP"),
        ("decode_png", BMP, "expected a PNG or a JPEG, got a BMP"),
        ("decode_bmp", PNG, "expected a BMP, got a PNG"),
        ("decode_gif", BMP, "expected a GIF, got a BMP"),
    ],
)
def test_another_format(decode: str, contents: bytes, text: str) -> None:
    with pytest.raises(ps.errors.FormatError, match=text):
        getattr(ps.image, decode)(contents)


@pytest.mark.parametrize("contents", ["a.jpg", 7, None, [1, 2]])
def test_not_bytes(contents: Any) -> None:
    with pytest.raises(ps.errors.BadType, match="contents: expected the bytes of an image file"):
        ps.image.decode_image(contents)


def test_bytes_of_any_kind() -> None:
    expected = ps.image.decode_jpeg(JPEG)
    for contents in (bytearray(JPEG), memoryview(JPEG), np.bytes_(JPEG), np.frombuffer(JPEG, np.uint8)):
        np.testing.assert_array_equal(ps.image.decode_jpeg(contents), expected)


# --- sizes that are not plausible ---


def gif_saying(height: int, width: int) -> bytes:
    return GIF[:6] + struct.pack("<HH", width, height) + GIF[10:]


HUGE = {
    "JPEG": jpeg_saying(JPEG, 60_000, 60_000),
    "PNG": png_of_rows(ROWS, 60_000, 8, 2, height=60_000),
    "GIF": gif_saying(60_000, 60_000),
    "BMP": BMP[:18] + struct.pack("<ii", 60_000, 60_000) + BMP[26:],
}


@pytest.mark.parametrize("kind", sorted(HUGE))
def test_a_header_that_claims_too_much(kind: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ps.errors.FormatError, match=rf"a {kind} of at most 100,000,000 pixels.* 60,000 × 60,000"):
            ps.image.decode_image(HUGE[kind])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_the_limit_is_the_callers() -> None:
    for contents, num_pixels in ((JPEG, 7500), (PNG, 7500), (BMP, 63), (GIF, 3 * 19 * 27)):
        assert ps.image.decode_image(contents, max_pixels=num_pixels).size == 3 * num_pixels
        with pytest.raises(ps.errors.FormatError, match=f"pass max_pixels={num_pixels}"):
            ps.image.decode_image(contents, max_pixels=num_pixels - 1)
    with pytest.raises(ps.errors.BadArgument, match="max_pixels: expected at least 1, got 0"):
        ps.image.decode_image(JPEG, max_pixels=0)


# --- what is harmless ---


def test_bytes_before_the_end_of_a_jpeg_are_harmless(capfd: Any) -> None:
    padded = JPEG[:-2] + b"written by a camera" + JPEG[-2:] + b"and after it"
    np.testing.assert_array_equal(ps.image.decode_jpeg(padded), ps.image.decode_jpeg(JPEG))
    assert capfd.readouterr() == ("", "")


def test_profiles_and_texts_in_a_png_are_ignored(capfd: Any) -> None:
    assert ps.image.decode_png(pngs()["with gamma, profile and text"]).shape == (11, 13, 3)
    assert capfd.readouterr() == ("", "")


def test_random_damage_is_a_format_error_or_an_image(capfd: Any) -> None:
    rng = np.random.default_rng(0)
    files = [JPEG, PROGRESSIVE, PNG, GIF, BMP, *pngs().values(), *gifs().values()]
    num_refused = 0
    for _ in range(3000):
        contents = bytearray(files[rng.integers(len(files))])
        for _ in range(rng.integers(1, 4)):
            contents[rng.integers(len(contents))] = rng.integers(256)
        try:
            assert ps.image.decode_image(bytes(contents), max_pixels=10**6).dtype == np.uint8
        except ps.errors.FormatError:
            num_refused += 1
    assert num_refused > 1000
    assert capfd.readouterr() == ("", "")


# --- arguments ---


@pytest.mark.parametrize(
    "call,text",
    [
        (lambda: ps.image.decode_jpeg(JPEG, channels=4), "channels: expected 0, 1 or 3 for a JPEG, got 4"),
        (lambda: ps.image.decode_jpeg(JPEG, ratio=3), "ratio: expected 1, 2, 4 or 8, got 3"),
        (lambda: ps.image.decode_jpeg(PNG, ratio=2), "ratio: expected 1 for a PNG, got 2"),
        (lambda: ps.image.decode_png(JPEG, dtype=np.float32), "dtype: expected uint8 or uint16, got float32"),
        (lambda: ps.image.decode_jpeg(JPEG, dct_method="BEST"), "dct_method: expected"),
        (lambda: ps.image.decode_and_crop_jpeg(JPEG, (1, 2, 3)), "crop_window: expected"),
        (lambda: ps.image.decode_png(PNG, channels=2), "channels: expected 0, 1, 3 or 4, got 2"),
        (lambda: ps.image.decode_png(PNG, dtype=np.float32), "dtype: expected uint8 or uint16, got float32"),
        (lambda: ps.image.decode_image(PNG, dtype=np.int32), "dtype: expected uint8, uint16 or float32, got int32"),
        (lambda: ps.image.decode_image(BMP, channels=1), "channels: expected 0, 3 or 4 for a BMP, got 1"),
        (lambda: ps.image.decode_image(GIF, channels=1), "channels: expected 0 or 3 for a GIF, got 1"),
        (lambda: ps.image.encode_jpeg(photo(4, 4), quality=101), "quality: expected 0 to 100, got 101"),
        (lambda: ps.image.encode_jpeg(photo(4, 4), "grayscale"), r"image: expected \(height, width, 1\), got shape"),
        (lambda: ps.image.encode_jpeg(photo(4, 4), "cmyk"), "format: expected"),
        (lambda: ps.image.encode_png(photo(4, 4), 10), "compression: expected -1 to 9, got 10"),
        (lambda: ps.image.encode_png(np.zeros((0, 4, 3), np.uint8)), "image: expected"),
    ],
)
def test_arguments_are_checked(call: Any, text: str) -> None:
    with pytest.raises(ps.errors.BadArgument, match=text):
        call()


def test_a_cmyk_jpeg_has_no_gray() -> None:
    from PIL import Image

    contents = jpeg(Image.fromarray(photo(8, 8)).convert("CMYK"))
    with pytest.raises(ps.errors.FormatError, match="got one in CMYK; decode it with channels=3"):
        ps.image.decode_jpeg(contents, channels=1)


def test_floats_are_not_encoded() -> None:
    with pytest.raises(ps.errors.BadType, match="image: expected uint8, got float32"):
        ps.image.encode_jpeg(np.zeros((4, 4, 3), np.float32))
