"""unbatch and rebatch."""

import numpy as np

from .data import Point, matrix, structures
from .program import Family

FAMILY = Family("unbatch/rebatch")
add = FAMILY.add

add("unbatch", lambda L: L.Dataset.range(7).batch(3).unbatch(), spec=True)
add("unbatch, drop_remainder", lambda L: L.Dataset.range(7).batch(3, drop_remainder=True).unbatch(), spec=True)
add("unbatch rows", lambda L: L.Dataset.from_tensor_slices(matrix(3, 2)).unbatch(), spec=True)
add("unbatch grids", lambda L: L.Dataset.from_tensor_slices(matrix(4, 6).reshape(2, 2, 6)).unbatch(), spec=True)
for name, value in structures(5).items():
    add(f"unbatch {name}", lambda L, v=value: L.Dataset.from_tensor_slices(v).batch(2).unbatch(), spec=True)
add("unbatch unequal lengths", lambda L: L.Dataset.range(5).map(lambda x: L.fill(x, x)).unbatch())
add("unbatch from_tensors", lambda L: L.Dataset.from_tensors((np.arange(3), matrix(3, 2))).unbatch(), spec=True)
add(
    "unbatch empty batches",
    lambda L: L.Dataset.from_tensors(np.zeros((0, 2), np.float32)).repeat(3).unbatch(),
    spec=True,
)
add("unbatch no rows", lambda L: L.Dataset.range(0).batch(2).unbatch(), spec=True)
add("unbatch, batch", lambda L: L.Dataset.range(10).batch(4).unbatch().batch(3), spec=True)
add("unbatch, take", lambda L: L.Dataset.range(10).batch(4).unbatch().take(5), spec=True)
add("unbatch, skip", lambda L: L.Dataset.range(10).batch(4).unbatch().skip(5), spec=True)
add("unbatch, map", lambda L: L.Dataset.range(5).batch(2).unbatch().map(lambda x: x + 1))
add("batch, map, unbatch", lambda L: L.Dataset.range(5).batch(2).map(lambda b: (b, b * 2)).unbatch())
add("unbatch of a filtered batch", lambda L: L.Dataset.range(9).batch(2).filter(lambda b: L.sum(b) > 3).unbatch())
add("unbatch twice", lambda L: L.Dataset.range(8).batch(2).batch(2).unbatch().unbatch())
add("unbatch bytes", lambda L: L.Dataset.from_tensor_slices([b"a", b"", b"c"]).batch(2).unbatch(), spec=True)
add("unbatch, passes", lambda L: L.Dataset.range(5).batch(2).unbatch(), passes=2)
add("unbatch ragged", lambda L: L.Dataset.range(4).map(lambda x: L.fill(x, x)).ragged_batch(3).unbatch())

for size in (1, 2, 3, 4, 5, 7, 20):
    for drop in (False, True):
        add(
            f"rebatch({size}, drop_remainder={drop})",
            lambda L, s=size, d=drop: L.Dataset.range(8).batch(3).rebatch(s, drop_remainder=d),
            spec=True,
        )
for sizes in ([2], [2, 1], [1, 2, 3], [5, 1], [3, 3, 3], [100], [0, 2]):
    for drop in (False, True):
        add(
            f"rebatch({sizes}, drop_remainder={drop})",
            lambda L, s=sizes, d=drop: L.Dataset.range(8).batch(4).rebatch(s, drop_remainder=d),
            spec=sizes != [0, 2],
        )
add("rebatch rows", lambda L: L.Dataset.from_tensor_slices(matrix(5, 2)).rebatch(3), spec=True)
add(
    "rebatch tuple", lambda L: L.Dataset.from_tensor_slices((np.arange(7), matrix(7, 2))).batch(3).rebatch(2), spec=True
)
add(
    "rebatch dict",
    lambda L: L.Dataset.from_tensor_slices({"a": np.arange(7), "b": matrix(7, 2)}).batch(3).rebatch(4),
    spec=True,
)
add(
    "rebatch namedtuple",
    lambda L: L.Dataset.from_tensor_slices(Point(np.arange(7), matrix(7, 2))).batch(2).rebatch(5),
    spec=True,
)
add("rebatch bytes", lambda L: L.Dataset.from_tensor_slices([b"a", b"b", b"c"]).batch(2).rebatch(3), spec=True)
add(
    "rebatch an even split",
    lambda L: L.Dataset.range(12).batch(6, drop_remainder=True).rebatch(3, drop_remainder=True),
    spec=True,
)
add("rebatch unequal lengths", lambda L: L.Dataset.range(6).map(lambda x: L.fill(x, x)).rebatch(4))
add("rebatch no rows", lambda L: L.Dataset.range(0).batch(2).rebatch(3), spec=True)
add("rebatch, repeat", lambda L: L.Dataset.range(5).batch(3).rebatch(2).repeat(2), spec=True)
add("repeat, rebatch", lambda L: L.Dataset.range(5).batch(3).repeat(2).rebatch(2), spec=True)
add("rebatch, unbatch", lambda L: L.Dataset.range(7).batch(2).rebatch(3).unbatch(), spec=True)
