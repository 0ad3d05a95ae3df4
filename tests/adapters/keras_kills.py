"""The end of a fit without warning, for the programs that tests of Keras run."""

from typing import Any

import keras

__all__ = ["KillAfter", "Killed"]


class Killed(BaseException):
    """Passes all that would tidy up after an error."""


class KillAfter(keras.callbacks.Callback):
    """Ends a fit after so many steps."""

    def __init__(self, num_steps: int) -> None:
        super().__init__()
        self.left = num_steps

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed
