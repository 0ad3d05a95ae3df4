"""ps.io: names that are loaded with the first of them."""

import pytest

import penstock as ps


def test_every_name_is_there() -> None:
    for name in ps.io.__all__:
        assert getattr(ps.io, name).__name__ == name
    assert dir(ps.io) == sorted(ps.io.__all__)


def test_images_are_decoded_under_the_names_of_tf_io_too() -> None:
    assert ps.io.decode_jpeg is ps.image.decode_jpeg
    assert ps.io.decode_image is ps.image.decode_image


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match=r"module 'penstock\.io' has no attribute 'parse'"):
        _ = ps.io.parse


def test_names_are_looked_up_in_the_usual_way_once_they_are_loaded() -> None:
    """Modules with a `__getattr__` are slow at it, in calls of a microsecond."""
    assert ps.io.encode_example is not None
    assert "__getattr__" not in vars(ps.io)
