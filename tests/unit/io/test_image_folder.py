"""from_image_folder: which files, which labels, what is left encoded, and what goes wrong."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import fs

import penstock as ps
from penstock.io import remote
from penstock.testing import check_source
from tests.unit.io.files import at_the_minimum, failed_by_file


def image(seed: int, height: int = 6, width: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def fill(root: Path, files: dict[str, Any]) -> Path:
    """Writes PNG files of what are arrays, others as they are."""
    for name, contents in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(ps.image.encode_png(contents) if isinstance(contents, np.ndarray) else contents)
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {f"{name}/{i}.png": image(10 * j + i, 6 + j, 5 + i) for j, name in enumerate("cab") for i in range(3)}
    return fill(tmp_path / "root", files)


def test_images_of_their_own_size_and_labels_by_sorted_name(root: Path) -> None:
    ds = ps.Dataset.from_image_folder(root)
    assert ds.class_names == ("a", "b", "c")
    assert len(ds) == 9
    found = list(ds)
    assert [int(label) for _, label in found] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert found[0][1].dtype == np.int64
    for (pixels, _), (j, i) in zip(found, [(j, i) for j in (1, 2, 0) for i in range(3)], strict=True):
        np.testing.assert_array_equal(pixels, image(10 * j + i, 6 + j, 5 + i))


def test_the_laws_of_sources(root: Path) -> None:
    check_source(ps.Dataset.from_image_folder(root, num_parallel_calls=None))
    check_source(ps.Dataset.from_image_folder(root, image_size=(4, 4), on_error="skip"))
    at_the_minimum(ps.Dataset.from_image_folder(root, image_size=(4, 4), num_parallel_calls=None).batch(3))


def test_class_names_stay_with_what_is_made_of_the_dataset(root: Path) -> None:
    ds = ps.Dataset.from_image_folder(root)
    other = ps.Dataset.from_image_folder(root, class_names=["a"])
    assert ds.shuffle(3).batch(2).prefetch(1).class_names == ("a", "b", "c")
    assert ds.concatenate(ds).class_names == ("a", "b", "c")
    assert not hasattr(ps.Dataset.range(3), "class_names")
    with pytest.raises(AttributeError, match="several sources"):
        ps.Dataset.zip((ds, other)).class_names  # noqa: B018


def test_resized_images_stack(root: Path) -> None:
    ((pixels, _labels),) = ps.Dataset.from_image_folder(root, image_size=(4, 3)).batch(9)
    assert pixels.shape == (9, 4, 3, 3)
    assert pixels.dtype == np.float32
    np.testing.assert_allclose(pixels[0], ps.image.resize(image(10, 7, 5), (4, 3)))
    nearest = ps.Dataset.from_image_folder(root, (4, 3), channels=1, interpolation="nearest")
    (first, _) = next(iter(nearest))
    assert first.shape == (4, 3, 1)
    assert first.dtype == np.float32


def test_bytes_of_the_files(root: Path) -> None:
    (first, _) = next(iter(ps.Dataset.from_image_folder(root, decode=False)))
    assert first == (root / "a" / "0.png").read_bytes()


def test_a_shuffle_is_on_indices_and_pixels_come_last(root: Path) -> None:
    ds = ps.Dataset.from_image_folder(root, (4, 4)).shuffle(seed=1).repeat(2).shard(2, 1).batch(3)
    plan = ds.explain().plan
    assert plan.input.op.describe() == "map(load image, num_parallel_calls=AUTOTUNE)"
    assert plan.input.input.op.describe().startswith("read from_image_folder(")
    assert not plan.input.input.inputs


def test_workers_share_files(root: Path) -> None:
    ds = ps.Dataset.from_image_folder(root, decode=False)
    assert list(ds.shard(2, 1, by="file")) == list(ds.shard(2, 1))


def test_what_counts_as_an_image(tmp_path: Path) -> None:
    files = ["a/x.JPG", "a/y.jpeg", "a/z.txt", "a/.hidden.png", "a/deep/er/w.bmp", "a/.git/v.png", ".b/u.png", "t.png"]
    root = fill(tmp_path, {name: name.encode() for name in files})
    (root / "empty").mkdir()
    ds = ps.Dataset.from_image_folder(root, decode=False)
    assert ds.class_names == ("a", "empty")
    assert [contents for contents, _ in ds] == [b"a/x.JPG", b"a/y.jpeg", b"a/deep/er/w.bmp"]
    texts = ps.Dataset.from_image_folder(str(root).encode(), decode=False, extensions=[".txt"])
    assert [contents for contents, _ in texts] == [b"a/z.txt"]
    photos = ps.Dataset.from_image_folder(root, decode=False, extensions=[".JPG", ".Jpeg"])
    assert [contents for contents, _ in photos] == [b"a/x.JPG", b"a/y.jpeg"]


def test_links(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"a/1.png": b"1"})
    fill(tmp_path / "else", {"2.png": b"2"})
    os.symlink(tmp_path / "else", root / "b")
    os.symlink(tmp_path / "else", root / "a" / "more")
    os.symlink(root / "a", root / "a" / "round")
    os.symlink(tmp_path / "else" / "2.png", root / "a" / "3.png")

    def read(follow_links: bool) -> list[tuple[bytes, int]]:
        ds = ps.Dataset.from_image_folder(root, decode=False, follow_links=follow_links)
        return [(contents, int(label)) for contents, label in ds]

    assert read(False) == [(b"1", 0), (b"2", 0), (b"2", 1)]
    assert sorted(read(True)) == [(b"1", 0), (b"2", 0), (b"2", 0), (b"2", 1)]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/a/\xff.png"))).write_bytes(b"odd")
    assert [contents for contents, _ in ps.Dataset.from_image_folder(tmp_path, decode=False)] == [b"odd"]


def test_classes_may_be_chosen_and_ordered(root: Path) -> None:
    ds = ps.Dataset.from_image_folder(root, class_names=["c", "a"], decode=False)
    assert ds.class_names == ("c", "a")
    assert [int(label) for _, label in ds] == [0, 0, 0, 1, 1, 1]
    with pytest.raises(ps.errors.BadArgument, match=r"expected folders in .* \(a, b, c\), got 'd', which is not"):
        ps.Dataset.from_image_folder(root, class_names=["a", "d"])
    with pytest.raises(ps.errors.BadArgument, match="one twice"):
        ps.Dataset.from_image_folder(root, class_names=["a", "a"])


def test_a_root_that_is_none(root: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"from_image_folder at .*: .*gone: expected a folder, there is none"):
        ps.Dataset.from_image_folder(root / "gone")
    with pytest.raises(ps.errors.FormatError, match="expected a folder, got a file"):
        ps.Dataset.from_image_folder(root / "a" / "0.png")
    with pytest.raises(ps.errors.BadArgument, match="has no folders, but 3 files"):
        ps.Dataset.from_image_folder(root / "a")
    (tmp_path / "empty" / "b").mkdir(parents=True)
    with pytest.raises(ps.errors.BadArgument, match=r"has 1 folders \(b\) with no files"):
        ps.Dataset.from_image_folder(tmp_path / "empty")
    with pytest.raises(ps.errors.BadArgument, match=r"has 3 folders \(a, b, c\) with 9 files, none of them such"):
        ps.Dataset.from_image_folder(root, extensions=[".tif"])
    with pytest.raises(TypeError, match="root: expected a path"):
        ps.Dataset.from_image_folder(3)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"image_size": 3}, "image_size: expected \\(height, width\\)"),
        ({"image_size": (0, 3)}, "image_size: expected at least 1"),
        ({"image_size": (3, 3), "decode": False}, "cannot be resized"),
        ({"channels": 2}, "channels: expected 0, 1, 3 or 4, got 2"),
        ({"interpolation": "cubic"}, "interpolation: expected"),
        ({"on_error": "ignore"}, "on_error: expected"),
        ({"extensions": ".png"}, "extensions: expected a list"),
        ({"num_parallel_calls": 0}, "num_parallel_calls: expected at least 1"),
    ],
)
def test_mistakes_are_found_at_the_users_line(root: Path, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ps.errors.PlanError, match=f"from_image_folder at .*test_image_folder.py:.*{text}"):
        ps.Dataset.from_image_folder(root, **arguments)


def test_files_that_cannot_be_decoded_name_themselves_and_are_counted(tmp_path: Path) -> None:
    whole = ps.image.encode_png(image(0))
    files = {"a/1.png": b"", "a/2.png": whole, "a/3.png": whole[:40], "b/4.png": b"no image", "b/5.png": whole}
    root = fill(tmp_path, files)
    ds = ps.Dataset.from_image_folder(root)
    run, errors, good = ds.run(), [], 0
    while True:
        try:
            next(run)
            good += 1
        except StopIteration:
            break
        except ps.errors.FormatError as error:
            errors.append(str(error))
    assert good == 2
    assert len(errors) == 3
    assert all(
        f"{root}/{name}: expected" in text for name, text in zip(["a/1.png", "a/3.png", "b/4.png"], errors, strict=True)
    )
    run = ps.Dataset.from_image_folder(root, on_error="skip").run()
    assert [int(label) for _, label in run] == [0, 1]
    assert failed_by_file(run) == {f"{root}/{name}": 1 for name in ("a/1.png", "a/3.png", "b/4.png")}
    (root / "b" / "5.png").unlink()
    with pytest.raises(ps.errors.FileMissing, match=r"5\.png: expected a file, there is none"):
        list(ds.skip(4))


def test_remote_folders(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of this machine as if it were a bucket's."""
    system = fs.SubTreeFileSystem(str(root.parent), fs.LocalFileSystem())
    monkeypatch.setitem(remote._FILE_SYSTEMS, ("store://host", ""), (system, "/"))
    ds = ps.Dataset.from_image_folder("store://host/root", decode=False)
    assert ds.class_names == ("a", "b", "c")
    assert list(ds) == list(ps.Dataset.from_image_folder(root, decode=False))
    with pytest.raises(ps.errors.FileMissing, match="store://host/gone: expected a folder"):
        ps.Dataset.from_image_folder("store://host/gone")
    with pytest.raises(ps.errors.FormatError, match="expected a folder, got a file"):
        ps.Dataset.from_image_folder("store://host/root/a/0.png")
