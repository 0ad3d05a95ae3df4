"""Run: one pass over a dataset."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, expect_list, replay, written
from ..element import Failed, arrays_in, nbytes_of
from ..ending import Ended
from ..errors import PenstockError, RunError, StateError
from ..frames import no_end
from ..memory.allocator import share_one_heap
from ..memory.arena import Slots
from ..memory.divide import divide
from ..memory.ledger import Ledger
from ..plan.at_first import begin_runs, end_runs
from ..plan.divided import divided_as, parts_of
from ..plan.footprint import Measured
from ..plan.node import Node
from ..plan.seeds import drawn_seeds, reseeded
from ..plan.settle import settled
from ..plan.traits import Traits
from .advice import expected_on_disk
from .closing import close_at_exit, close_dropped, wait_for_closing
from .fitting import about_plan, check_state
from .lower import Stages
from .settings import Settings

__all__ = ["Run"]

# Elements that are delivered singly are still pulled in blocks, as long as a block takes no longer than this to make.
_BLOCK_NS = 500_000
_MOST_ELEMENTS = 128
# More bytes than this at a time would leave the processor's nearest cache before they are used.
_MOST_BYTES = 1 << 15


class Run:
    """An iterator over one epoch of a dataset, with a memory budget and a position that can be saved.

    Also a context manager. When an element's function raises, the error reaches the caller, and the next call of
    `next()` goes on with the next element. After an interrupt (Ctrl-C) it goes on with the one that was interrupted.
    """

    def __init__(
        self,
        written: Node,
        settings: Settings,
        epoch: int,
        make_dataset: Callable[[Node], Any],
        on_load: Callable[[int, list[int]], None] = lambda epoch, seeds: None,
    ) -> None:
        self._written = written
        self._settings = settings
        self._make_dataset = make_dataset
        self._on_load = on_load
        self.epoch = epoch
        self._began: Node | None = None
        self._ending: threading.Event | None = None  # set when it was closed, once the process is about to end
        self._open(written)

    def _open(self, written: Node) -> None:
        settings = self._settings
        plan = settled(written)
        if settings.optimize is not None:
            plan = settings.optimize(plan)
        self.plan = plan
        division = divide(plan, settings.measured_by_node(plan))
        if settings.pool is None:  # a pool says for itself what is left of it
            division.check(settings.budget_bytes)
        wait_for_closing()
        share_one_heap(settings.budget_bytes)
        self.ledger = Ledger(settings.budget_bytes, settings.pool)
        self.ledger.frugal = settings.frugal
        self.ledger.is_untried = not division.complete
        self._adapting = not any(self._goes_singly(node.op.traits) for node in plan.walk())
        stages = self._stages = Stages(self.ledger, settings, self._make_dataset)
        # Positions of one process are also others', whose elements stand between its own.
        keep_order = bool(parts_of(written))
        try:
            with self._stages.arrays.use():
                root = self._root = stages.open_plan(plan, division, self.epoch, keep_order=keep_order)
        except BaseException:
            stages.close()
            raise
        # By way of the stages: what knows the run would keep it from being closed when it is dropped.
        self.ledger.advise = stages.advice
        self.ledger.needs = stages.needs
        stages.spill.expects = lambda: expected_on_disk(plan, stages.measured())
        ledger = self.ledger
        stages.spill.at_write = lambda: ledger.withheld.begin(ledger.budget_bytes, ledger.floor_bytes)
        if stages.spill.total_bytes:  # of caches that were filled before
            stages.spill.at_write()
        self._rows: list[Any] = []
        self._offset = 0
        # Elements that were delivered before these; none can be told once one has failed.
        self._num_before: int | None = 0
        self._before: State = None
        self._demand = 1
        self._over = False
        self._is_parents = False
        self._is_interrupted = False
        self._ended_by: PenstockError | None = None
        self._last_position: State = None
        self._closer = _Closer(root, stages)
        begin_runs(written)
        self._began = written
        _OPEN.add(self)

    def _goes_singly(self, traits: Traits) -> bool:
        """Whether elements must be pulled one by one: they may be long in coming, or come in another order again."""
        deterministic = self._settings.deterministic if traits.deterministic is None else traits.deterministic
        return traits.live or (traits.num_parallel_calls != 0 and not deterministic)

    def __iter__(self) -> Run:
        return self

    def __next__(self) -> Any:
        if self._offset == len(self._rows):
            self._pull()
        try:
            row = self._rows[self._offset]
            self._rows[self._offset] = None  # the caller's from now on
        except IndexError:
            if not self._over:
                raise
            raise StopIteration from None  # another thread has closed it since
        self._offset += 1
        kind = type(row)
        if kind is np.ndarray:
            self._stages.slots.hand_over(row)
        elif kind is Failed:
            self._num_before = None
            try:
                if isinstance(row.error, StopIteration):  # would end the caller's loop, as by the end of the data
                    raise no_end(row.error, "a function") from row.error
                raise row.error
            finally:
                del row  # else only a garbage collection would find the error: its traceback has this frame
        elif not isinstance(row, np.generic):
            self._hand_over(row)
        return row

    def has_next(self) -> bool:
        """Whether there is another element, which is made if only that can tell. The position stays where it is."""
        if self._offset == len(self._rows):
            try:
                self._pull()
            except StopIteration:
                return False
        return True

    def _pull(self) -> None:
        if self._ended_by is not None:  # or who goes on after an error would take this for the end of the data
            raise _again(self._ended_by)
        self._refuse_in_child()
        if self._ending is not None:
            self._end_with_process()
        if self._is_interrupted:
            self._go_on()
        if self._over:
            raise StopIteration
        self._num_before, self._rows, self._offset = self._num_delivered, [], 0
        self._before = self._root.state()
        start = perf_counter_ns() if self._adapting else 0
        try:
            self._stages.look_at_pressure()
            with self._stages.arrays.use():
                block = self._root.pull(self._demand)
                if block is not None:
                    if self.ledger.is_untried:
                        self._stages.keep_first_needs()
                    self._rows = block.rows()
        except BaseException as error:
            if self._ending is not None:
                self._end_with_process()
            if isinstance(error, Ended):  # closed meanwhile, by another thread or a function of its own
                raise StopIteration from None
            # Such as Ctrl-C: stages may have been in the midst of anything, and threads of theirs have ended.
            self._is_interrupted = not isinstance(error, Exception)
            self._close_at([self._before, 0])  # nothing of what was begun has been delivered
            if isinstance(error, Exception):
                self._ended_by = _again(error)
            raise
        if self._ending is not None:
            self._end_with_process()
        if block is None:
            self._close_at("end")
            raise StopIteration
        if self._adapting:
            self._adapt(perf_counter_ns() - start, block.size, self._rows[0])

    def _go_on(self) -> None:
        """Opens the stages again, at the element that was interrupted."""
        position, num_before = self._last_position, self._num_before
        self._open(self._written)
        self._num_before = num_before
        self._move_to(position)

    def pull(self, n: int) -> Block | None:
        """The next 1 to n elements as they lie together, for who writes many at once; None at the end.

        Not to be mixed with `next`. Elements that failed are in it.
        """
        self._refuse_in_child()
        if self._ending is not None:
            self._end_with_process()
        if self._over:
            return None
        self._stages.look_at_pressure()
        try:
            with self._stages.arrays.use():
                block = self._root.pull(n)
        except BaseException as error:
            if self._ending is not None:
                self._end_with_process()
            self._close_at("end")
            if isinstance(error, Ended):  # who writes what there is must not take this for all of it
                raise RunError("another thread has closed this run while it was read") from None
            raise
        if self._ending is not None:
            self._end_with_process()
        if block is None:
            self._close_at("end")
        elif self.ledger.is_untried:
            self._stages.keep_first_needs()
        return block

    @property
    def slots(self) -> Slots:
        """Where its batches lie."""
        return self._stages.slots

    @property
    def whereabouts(self) -> str:
        """The operator that it is a run of, and the user's line, as errors name them."""
        return f"{self._written.op.name} at {self._written.origin}"

    @property
    def shows_progress(self) -> bool:
        """Whether progress bars may show."""
        return self._stages.shows_progress

    def _hand_over(self, row: Any) -> None:
        """What the caller holds is the caller's: it leaves the ledger."""
        for array in arrays_in(row):
            self._stages.slots.hand_over(array)

    def _adapt(self, elapsed_ns: int, size: int, row: Any) -> None:
        """Asks for more at a time while elements are small and quick to make, for fewer when they are not."""
        each_bytes = nbytes_of(row)
        most_bytes = min(_MOST_BYTES, self.ledger.budget_bytes // 8)
        if each_bytes > most_bytes:  # a batch, most likely, and so are those to come
            self._demand, self._adapting = 1, False
            return
        quick = _BLOCK_NS * size // max(1, elapsed_ns)
        self._demand = max(1, min(quick, most_bytes // max(1, each_bytes), _MOST_ELEMENTS, self._demand * 2))

    def state_dict(self) -> dict[str, Any]:
        """The position after the last element delivered. Work in flight is not part of it: it will be redone."""
        return {
            "version": 1,
            **about_plan(self._written),
            "optimized": self._settings.optimize is not None,
            "epoch": self.epoch,
            "seeds": drawn_seeds(self._written),
            "position": written(self._position()),
            "parts": parts_of(self._written),
            "delivered": self._num_delivered,
        }

    @property
    def _num_delivered(self) -> int | None:
        return None if self._num_before is None else self._num_before + self._offset

    def _position(self) -> State:
        if self._over:
            return self._last_position
        return [self._before, self._offset] if self._offset < len(self._rows) else [self._root.state(), 0]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Moves to a saved position: what comes next is what came next then.

        Raises:
            StateError: It is of another pipeline: other operators, arguments, code, captured values or data. Names the
                first difference. `Options(resume_changed=True)` lets code, captured values and data differ. The run
                stays where it was.
        """
        settings = self._settings
        check_state(state, self._written, settings.optimize is not None, accepts_changes=settings.resume_changed)
        written, goes_on, at_end = reseeded(self._written, state["seeds"]), True, state["position"] == "end"
        if not at_end:
            written, goes_on = divided_as(written, state.get("parts", []), state.get("delivered"))
        go_back = self._way_back()
        self.close()
        self._written, self.epoch = written, state["epoch"]
        try:
            self._open(written)
            if goes_on:
                self._num_before = state.get("delivered")
                if at_end:
                    self._close_at("end")
                else:
                    self._move_to(state["position"])
        except BaseException:
            if self._is_interrupted:  # on the way there: the next call begins again
                self._on_load(self.epoch, state["seeds"])
            else:
                go_back()
            raise
        self._on_load(self.epoch, state["seeds"])

    def _way_back(self) -> Callable[[], None]:
        """What makes the next call go on from here, whatever was loaded meanwhile."""
        was, epoch, ended_by, num_delivered = self._written, self.epoch, self._ended_by, self._num_delivered
        goes_on = self._is_interrupted or not (self._over or self._is_parents)
        position = written(self._position()) if goes_on else self._last_position

        def go_back() -> None:
            self._close_at(position)
            self._written, self.epoch, self._ended_by, self._num_before = was, epoch, ended_by, num_delivered
            self._is_interrupted = goes_on

        return go_back

    def _move_to(self, position: State) -> None:
        below, offset = expect_list(position, 2)
        try:
            with self._stages.arrays.use():
                self._root.restore(below)
                replay(self._root, offset)
        except BaseException as error:
            if not isinstance(error, Exception):  # on the way there: the next call begins again
                self._is_interrupted = True
                self._close_at(position)
            if not isinstance(error, (TypeError, ValueError, KeyError, IndexError)) or isinstance(error, PenstockError):
                raise
            raise StateError(f"the saved position is damaged: {below!r:.80}") from error

    get_state, set_state = state_dict, load_state_dict  # as iterators of Grain call them

    def stats(self) -> dict[str, Any]:
        """What each stage did so far: elements, bytes, busy and waiting seconds, and what was chosen for it."""
        return {"epoch": self.epoch, **self._stages.stats()}

    def measured(self) -> tuple[Measured, ...]:
        """What each stage gave and held so far, sources first."""
        return self._stages.measured()

    def memory(self) -> dict[str, Any]:
        """Where the bytes are: the ledger by stage, what you hold, what is on disk, and what the system says."""
        return self._stages.memory()

    @property
    def is_over(self) -> bool:
        """Whether it was closed, or has come to its end."""
        return self._over

    def close(self) -> None:
        """Ends all threads and gives all memory back. The run is over; a second call does nothing."""
        self._is_interrupted = False
        if not self._over and not self._is_parents:
            self._close_at(self._position())

    def _close_at(self, position: State) -> None:
        self._over = True
        self._last_position = position  # closed cursors no longer know what was delivered
        self._num_before = self._num_delivered
        self._closer()
        self._rows, self._offset = [], 0
        if self._began is not None:
            end_runs(self._began)
            self._began = None

    def _leave_to_parent(self) -> None:
        """In a forked child: threads, locks that they may hold, and files are the parent's, who goes on with them."""
        if not self._over:
            self._is_parents = True
            if self._offset < len(self._rows):
                self._last_position, self._num_before, self._over = self._position(), self._num_delivered, True
            self._rows, self._offset = [], 0

    def _refuse_in_child(self) -> None:
        if self._is_parents:
            raise RunError(
                f"this run was opened by the process that this one, {os.getpid()}, was forked from, and a run does not "
                "survive fork; open one here with dataset.run()"
            )

    def _end_with_process(self) -> NoReturn:
        """Ends this thread, since the process has come to its end, and closes the run while it still can.

        By what threads end with in silence: it is no error of theirs, nor the end of the data.
        """
        if threading.current_thread() is threading.main_thread():
            raise RunError("the process ends, and this run is closed")
        assert self._ending is not None
        try:
            self._closer()
        finally:
            self._ending.set()
            raise SystemExit

    def __del__(self) -> None:
        # Not by weakref.finalize, which would hold the cursors: an error that waits in one of them refers to this run,
        # by the frames of its traceback, and neither would ever be dropped.
        closer = getattr(self, "_closer", None)
        # At the end of the process `_close_all` was there before.
        if closer is not None and not closer.is_done and not self._is_parents and not sys.is_finalizing():
            close_dropped(self, closer)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _again(error: Exception) -> PenstockError:
    """The same error without its frames, which refer to the run that keeps it; of another library's what it says."""
    if not isinstance(error, PenstockError):
        return RunError(f"the run has ended with an error: {type(error).__name__}: {error}")
    same = type(error)(*error.args)
    same.is_located = error.is_located
    return same


_OPEN: weakref.WeakSet[Run] = weakref.WeakSet()  # and those that are over, as long as somebody has them


def _leave_all_to_parent() -> None:
    for run in list(_OPEN):
        run._leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)


def _close_all() -> None:
    """The process ends, and nobody gets another element. Runs that a thread is just reading are closed by that one."""
    left = [run for run in list(_OPEN) if not run._over and not run._is_parents]
    for run in left:
        run._ending = threading.Event()
        run.ledger.ending.is_near = True
    reading, being_read = (Run._pull.__code__, Run.pull.__code__), set()
    for frame in sys._current_frames().values():
        at: FrameType | None = frame
        while at is not None:
            if at.f_code in reading:
                being_read.add(id(at.f_locals["self"]))
            at = at.f_back
    close_at_exit(
        [run._closer for run in left if id(run) not in being_read],
        [run._ending for run in left if id(run) in being_read and run._ending is not None],
    )


# What is registered last is called first, and `weakref.finalize` registers itself with the first finalizer: those of
# files, which threads may be just reading or writing, come after the runs.
weakref.finalize(Run, lambda: None).detach()
atexit.register(_close_all)


class _Closer:
    """Closes what a run opened, once."""

    __slots__ = ("_root", "_stages")

    def __init__(self, root: Cursor, stages: Stages) -> None:
        self._root: Cursor | None = root
        self._stages = stages

    @property
    def is_done(self) -> bool:
        return self._root is None

    def __call__(self) -> None:
        root, self._root = self._root, None
        if root is not None:
            self._stages.ledger.ending.is_near = True
            try:
                root.close()
            finally:
                self._stages.close()
