"""zip, concatenate, choose_from_datasets and what of sample_from_datasets is exact."""

import numpy as np

from .data import Point, matrix
from .program import Family

FAMILY = Family("combine")
add = FAMILY.add

add("zip of a tuple", lambda L: L.Dataset.zip((L.Dataset.range(3), L.Dataset.range(5, 8))), spec=True)
add("zip of arguments", lambda L: L.Dataset.zip(L.Dataset.range(3), L.Dataset.range(5, 8)), spec=True)
add("zip of one", lambda L: L.Dataset.zip((L.Dataset.range(3),)), spec=True)
add("zip of one argument", lambda L: L.Dataset.zip(L.Dataset.range(3)), spec=True)
add("zip of a dict", lambda L: L.Dataset.zip({"a": L.Dataset.range(3), "b": L.Dataset.range(3)}), spec=True)
add("zip of a namedtuple", lambda L: L.Dataset.zip(Point(L.Dataset.range(3), L.Dataset.range(3))), spec=True)
add(
    "zip nested",
    lambda L: L.Dataset.zip(({"a": L.Dataset.range(3)}, (L.Dataset.range(4), L.Dataset.range(5).batch(2)))),
    spec=True,
)
add(
    "zip of tuples keeps them",
    lambda L: L.Dataset.zip((L.Dataset.from_tensor_slices((np.arange(3), np.arange(3))), L.Dataset.range(3))),
    spec=True,
)
for lengths in ((3, 5), (5, 3), (0, 3), (3, 0), (4, 4)):
    add(
        f"zip lengths {lengths}",
        lambda L, n=lengths: L.Dataset.zip((L.Dataset.range(n[0]), L.Dataset.range(n[1]))),
        spec=True,
    )
add("zip of three", lambda L: L.Dataset.zip((L.Dataset.range(3), L.Dataset.range(4), L.Dataset.range(2))), spec=True)
add("zip with endless", lambda L: L.Dataset.zip((L.Dataset.range(3), L.Dataset.range(2).repeat())), spec=True)
add(
    "zip of endless",
    lambda L: L.Dataset.zip((L.Dataset.counter(), L.Dataset.range(2).repeat())),
    spec=True,
    max_items=5,
)
add(
    "zip with filter",
    lambda L: L.Dataset.zip((L.Dataset.range(9).filter(lambda x: x % 2 == 1), L.Dataset.range(9))),
    spec=True,
)
add("zip with itself", lambda L: (lambda d: L.Dataset.zip((d, d)))(L.Dataset.range(3)), spec=True)
add("zip, map", lambda L: L.Dataset.zip((L.Dataset.range(3), L.Dataset.range(3))).map(lambda a, b: a * b))
add(
    "zip, batch",
    lambda L: L.Dataset.zip((L.Dataset.range(5), L.Dataset.from_tensor_slices(matrix(5, 2)))).batch(2),
    spec=True,
)
add(
    "zip, skip, take, shard",
    lambda L: L.Dataset.zip((L.Dataset.range(20), L.Dataset.range(30))).skip(2).take(10).shard(3, 1),
    spec=True,
)
add("zip, repeat", lambda L: L.Dataset.zip((L.Dataset.range(3), L.Dataset.range(2))).repeat(2), spec=True)
add("zip, twice", lambda L: L.Dataset.zip((L.Dataset.range(3), L.Dataset.range(2))), passes=2)

for lengths in ((3, 2), (0, 2), (3, 0), (0, 0)):
    add(
        f"concatenate {lengths}",
        lambda L, n=lengths: L.Dataset.range(n[0]).concatenate(L.Dataset.range(10, 10 + n[1])),
        spec=True,
    )
add(
    "concatenate three",
    lambda L: L.Dataset.range(2).concatenate(L.Dataset.range(3)).concatenate(L.Dataset.range(1)),
    spec=True,
)
add("concatenate itself", lambda L: (lambda d: d.concatenate(d))(L.Dataset.range(3)), spec=True)
add(
    "concatenate structures",
    lambda L: (lambda d: d.concatenate(d.take(1)))(
        L.Dataset.from_tensor_slices({"a": np.arange(3), "b": (matrix(3, 2),)})
    ),
    spec=True,
)
add("concatenate, batch crosses", lambda L: L.Dataset.range(4).concatenate(L.Dataset.range(10, 13)).batch(3), spec=True)
add(
    "concatenate rows of other lengths",
    lambda L: L.Dataset.from_tensor_slices(matrix(2, 2)).concatenate(L.Dataset.from_tensor_slices(matrix(2, 3))),
    spec=True,
)
add(
    "concatenate rows of other rank",
    lambda L: L.Dataset.from_tensor_slices(matrix(2, 2)).concatenate(
        L.Dataset.from_tensor_slices(np.zeros(2, np.float32))
    ),
)
add(
    "concatenate endless second",
    lambda L: L.Dataset.range(2).concatenate(L.Dataset.range(2).repeat()),
    spec=True,
    max_items=7,
)
add(
    "concatenate endless first",
    lambda L: L.Dataset.range(2).repeat().concatenate(L.Dataset.range(9, 12)),
    spec=True,
    max_items=7,
)
add("concatenate, skip across", lambda L: L.Dataset.range(3).concatenate(L.Dataset.range(10, 15)).skip(4), spec=True)
add("concatenate, take across", lambda L: L.Dataset.range(3).concatenate(L.Dataset.range(10, 15)).take(5), spec=True)
add("concatenate, shard", lambda L: L.Dataset.range(3).concatenate(L.Dataset.range(10, 15)).shard(2, 1), spec=True)
add("concatenate, repeat", lambda L: L.Dataset.range(2).concatenate(L.Dataset.range(10, 11)).repeat(2), spec=True)
add(
    "concatenate of filters",
    lambda L: L.Dataset.range(5).filter(lambda x: x > 2).concatenate(L.Dataset.range(5).filter(lambda x: x < 1)),
    spec=True,
)
add(
    "concatenate bytes",
    lambda L: L.Dataset.from_tensor_slices([b"a"]).concatenate(L.Dataset.from_tensor_slices([b"bb", b""])),
    spec=True,
)
add("concatenate, twice", lambda L: L.Dataset.range(2).concatenate(L.Dataset.range(1)), passes=2)


def three(L):
    return [L.Dataset.range(0, 3), L.Dataset.range(10, 14), L.Dataset.range(20, 21)]


for name, choices in {
    "in turn": [0, 1, 2, 0, 1, 0, 1],
    "one only": [1, 1, 1],
    "past the end of one": [2, 2, 2, 0, 1],
    "past the end of all": [0] * 5 + [1] * 6 + [2] * 3,
    "nothing": [],
    "out of range once": [0, 7, 1],
    "negative once": [0, -1, 1],
}.items():
    for stop in (True, False):
        add(
            f"choose {name}, stop_on_empty_dataset={stop}",
            lambda L, c=choices, s=stop: L.Dataset.choose_from_datasets(
                three(L), L.Dataset.from_tensor_slices(np.array(c, np.int64)), stop_on_empty_dataset=s
            ),
            spec=True,
        )
add(
    "choose by default stops",
    lambda L: L.Dataset.choose_from_datasets(three(L), L.Dataset.range(3).repeat()),
    spec=True,
)
add(
    "choose, endless",
    lambda L: L.Dataset.choose_from_datasets([d.repeat() for d in three(L)], L.Dataset.range(3).repeat()).take(9),
    spec=True,
)
add(
    "choose among structures",
    lambda L: L.Dataset.choose_from_datasets(
        [L.Dataset.range(3).enumerate(), L.Dataset.range(5, 8).enumerate()], L.Dataset.range(2).repeat(3)
    ),
    spec=True,
)
add(
    "choose from one",
    lambda L: L.Dataset.choose_from_datasets([L.Dataset.range(3)], L.Dataset.from_tensors(np.int64(0)).repeat(9)),
    spec=True,
)
add("choose, twice", lambda L: L.Dataset.choose_from_datasets(three(L), L.Dataset.range(3).repeat(2), False), passes=2)

for weights in ([1.0, 0.0], [0.0, 1.0]):
    for stop in (True, False):
        add(
            f"sample weights {weights}, stop_on_empty_dataset={stop}",
            lambda L, w=weights, s=stop: L.Dataset.sample_from_datasets(
                [L.Dataset.range(3), L.Dataset.range(10, 14)], weights=w, seed=1, stop_on_empty_dataset=s
            ),
            spec=True,
            cardinality=False,
        )
add("sample from one", lambda L: L.Dataset.sample_from_datasets([L.Dataset.range(3)], seed=1), spec=True)
add("sample to the end", lambda L: L.Dataset.sample_from_datasets(three(L), seed=1), exact=False, spec=True)
