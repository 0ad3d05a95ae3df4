"""Stand-ins that keep the contracts of the real things and remember what was asked of them."""

from typing import Any

from penstock.block import Block
from penstock.cursor import Cursor, State
from penstock.element import Failed
from penstock.errors import OverBudget


class Raises:
    """In the place of an element: `pull` raises this when it gets there, and would go on after it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class ListCursor(Cursor):
    """The elements of a list, at most `most` at a time; its position is one integer."""

    def __init__(self, rows: list[Any], most: int = 1_000_000) -> None:
        self.rows = rows
        self.most = most
        self.place = 0
        self.asked: list[int] = []
        self.skipped: list[int] = []
        self.lost_elements = 0
        self.num_closed = 0

    def pull(self, n: int) -> Block | None:
        assert n >= 1, "nobody may ask for nothing"
        assert not self.num_closed, "pulled after it was closed"
        self.asked.append(n)
        rows = self.rows[self.place : self.place + min(n, self.most)]
        stop = next((i for i, row in enumerate(rows) if isinstance(row, Raises)), len(rows))
        self.place += max(stop, 1) if rows else 0
        if rows and stop == 0:
            raise rows[0].error
        return Block.of_rows(list(rows[:stop])) if stop else None

    def skip(self, n: int) -> int:
        self.skipped.append(n)
        count = min(n, len(self.rows) - self.place)
        self.place += count
        return count

    def lost(self, n: int) -> None:
        self.lost_elements += n

    def state(self) -> State:
        return self.place

    def restore(self, state: State) -> None:
        self.place = state

    def close(self) -> None:
        self.num_closed += 1


def all_of(cursor: Cursor, n: int) -> list[Any]:
    """Everything that a cursor gives when it is asked for n at a time; failures as their errors."""
    rows: list[Any] = []
    while (block := cursor.pull(n)) is not None:
        assert 1 <= block.size <= n
        rows += [row.error if type(row) is Failed else row for row in block.rows()]
    return rows


def all_with_errors(run: Any) -> list[Any]:
    """What a run delivers, errors in their places; one that ends the run, and would come again for ever, is raised."""
    found: list[Any] = []
    while True:
        try:
            found.append(next(run))
        except StopIteration:
            return found
        except OverBudget:
            raise
        except Exception as error:
            found.append(error)
