"""Pictures and files of pictures, made on the spot and always the same."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from PIL import Image


def photo(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Smooth colours with some noise, as photographs have."""
    rng = np.random.default_rng(seed)
    y = np.linspace(0, 3, height)[:, None, None]
    x = np.linspace(0, 4, width)[None, :, None]
    phase = rng.uniform(0, 6, channels)
    waves = 128 + 70 * np.sin(2 * y + phase) + 50 * np.cos(3 * x - y + 2 * phase)
    return np.clip(waves + rng.normal(0, 6, waves.shape), 0, 255).astype(np.uint8)


def saved(image: np.ndarray | Image.Image, kind: str, **options: Any) -> bytes:
    """A file of this kind, as Pillow writes it."""
    if isinstance(image, np.ndarray):
        image = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def jpeg(image: np.ndarray | Image.Image, **options: Any) -> bytes:
    return saved(image, "JPEG", **({"quality": 90} | options))


def jpeg_saying(contents: bytes, height: int, width: int) -> bytes:
    """The same JPEG with another size in its header."""
    place = contents.index(b"\xff\xc0") + 5
    return contents[:place] + struct.pack(">HH", height, width) + contents[place + 4 :]


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_of_rows(
    rows: list[bytes],
    width: int,
    depth: int,
    color_type: int,
    *,
    height: int | None = None,
    extra: bytes = b"",
    compressed: bytes | None = None,
) -> bytes:
    """A PNG put together by hand, right or wrong."""
    header = struct.pack(">IIBBBBB", width, len(rows) if height is None else height, depth, color_type, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows)) if compressed is None else compressed
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def pngs() -> dict[str, bytes]:
    """One PNG of each kind."""
    rng = np.random.default_rng(0)
    picture, alpha = photo(19, 27), rng.integers(0, 256, (19, 27, 1), dtype=np.uint8)
    deep = rng.integers(0, 65536, (11, 13, 4), dtype=np.uint16)
    few = rng.integers(0, 3, (11, 13 * 3), dtype=np.uint8)
    packed = rng.integers(0, 256, (11, 8), dtype=np.uint8)

    def deep_png(channels: slice, color_type: int) -> bytes:
        return png_of_rows([row[:, channels].astype(">u2").tobytes() for row in deep], 13, 16, color_type)

    colors = Image.fromarray(picture)
    return {
        "rgb": saved(picture, "PNG"),
        "rgba": saved(np.concatenate((picture, alpha), 2), "PNG"),
        "gray": saved(picture[..., :1], "PNG"),
        "gray alpha": saved(np.concatenate((picture[..., :1], alpha), 2), "PNG"),
        "palette": saved(colors.quantize(200), "PNG"),
        "small palette": saved(colors.quantize(12), "PNG"),
        "palette with alpha": saved(colors.quantize(100), "PNG", transparency=bytes(range(100))),
        "black and white": saved(Image.fromarray(picture[..., 0]).convert("1"), "PNG"),
        "16-bit gray": deep_png(slice(0, 1), 0),
        "16-bit rgb": deep_png(slice(0, 3), 2),
        "16-bit rgba": deep_png(slice(0, 4), 6),
        "16-bit gray alpha": deep_png(slice(0, 2), 4),
        "4-bit gray": png_of_rows([row.tobytes() for row in packed], 16, 4, 0),
        "2-bit gray": png_of_rows([row.tobytes() for row in packed], 32, 2, 0),
        "2-bit gray, one transparent": png_of_rows(
            [row.tobytes() for row in packed], 32, 2, 0, extra=chunk(b"tRNS", struct.pack(">H", 1))
        ),
        "rgb, one transparent": png_of_rows(
            [row.tobytes() for row in few], 13, 8, 2, extra=chunk(b"tRNS", struct.pack(">HHH", 1, 1, 1))
        ),
        "gray, one transparent": png_of_rows(
            [row.tobytes() for row in few], 39, 8, 0, extra=chunk(b"tRNS", struct.pack(">H", 1))
        ),
        "with gamma, profile and text": png_of_rows(
            [row.tobytes() for row in few],
            13,
            8,
            2,
            extra=chunk(b"gAMA", struct.pack(">I", 100000))
            + chunk(b"iCCP", b"wrong\0\0xxxxx")
            + chunk(b"tEXt", b"Title\0x"),
        ),
    }


def wiped(disposal: int) -> bytes:
    """A GIF of frames with holes in other places, which say what becomes of them before the next is drawn."""
    frames = []
    for number in range(3):
        alpha = np.full((19, 27, 1), 255, np.uint8)
        alpha[3 + 4 * number : 9 + 4 * number, 3:9] = 0
        frames.append(Image.fromarray(np.concatenate((photo(19, 27, seed=number), alpha), 2)))
    return saved(frames[0], "GIF", save_all=True, append_images=frames[1:], disposal=disposal)


def gifs() -> dict[str, bytes]:
    pictures = [Image.fromarray(photo(19, 27, seed=seed)).quantize(60) for seed in range(3)]
    still, moved = photo(19, 27), photo(19, 27)
    moved[5:9, 5:12] = 255
    alpha = np.where(photo(19, 27, 1, seed=5) > 128, 255, 0).astype(np.uint8)
    return {
        "one frame": saved(pictures[0], "GIF"),
        "three frames": saved(pictures[0], "GIF", save_all=True, append_images=pictures[1:], duration=100),
        "a part that moves": saved(
            Image.fromarray(still).quantize(60),
            "GIF",
            save_all=True,
            append_images=[Image.fromarray(moved).quantize(60)],
            duration=100,
        ),
        "transparent": saved(Image.fromarray(np.concatenate((still, alpha), 2)), "GIF"),
        "frames to be wiped": wiped(2),
        "frames to be put back": wiped(3),
    }
