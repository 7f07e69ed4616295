"""Joins calls of a model that several requests make at the same time."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tf_probunet.artifacts.saved_model import LoadedModel

Outputs = dict[str, np.ndarray]

# Pixels of all samples of a batch. Larger images are segmented one at a time.
_MAX_PIXELS = 2**23


class Batcher:
    """Calls a model in a thread of its own, with all calls that wait joined.

    Nothing waits for a batch to fill: a call is made as soon as the model is free, and
    those that arrive in the meantime make up the next batch.
    """

    def __init__(
        self,
        model: LoadedModel,
        max_batch: int,
        observe: Callable[[str, int], None] = lambda function, size: None,
    ) -> None:
        """Starts the thread.

        Args:
            model: to call.
            max_batch: images in a call.
            observe: called with the function and the number of images of each batch.
        """
        self._model = model
        self._max_batch = max_batch
        self._observe = observe
        self._waiting: collections.deque[_Call] = collections.deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)
        self._thread.start()

    def model(self, deadline: float) -> BatchedModel:
        """Returns the model for a request, whose calls are joined with others.

        Args:
            deadline: by `time.monotonic`; calls give up then.
        """
        fields = dataclasses.fields(LoadedModel)
        values = {field.name: getattr(self._model, field.name) for field in fields}
        return BatchedModel(**values, batcher=self, deadline=deadline)

    def call(
        self, function: str, tensors: Sequence[Any], about: str, deadline: float
    ) -> Outputs:
        """Calls a function for one image; returns when its batch is done.

        Args:
            function: its name.
            tensors: its inputs, for a batch of one image.
            about: what the inputs come from, for error messages.
            deadline: by `time.monotonic`.

        Raises:
            TimeoutError: the deadline has passed, or the service is stopping.
            ValueError: the model fails on the image.
        """
        call = _Call(function, tuple(tensors), about)
        with self._changed:
            if self._closed:
                raise TimeoutError("the service is stopping")
            self._waiting.append(call)
            self._changed.notify()
        try:
            return call.result.result(max(0.0, deadline - time.monotonic()))
        # Python 3.9 and 3.10 have two classes for it.
        except (concurrent.futures.TimeoutError, TimeoutError) as error:
            call.result.cancel()
            raise TimeoutError(str(error)) from error

    def close(self) -> None:
        """Ends the thread after its batch. Calls that still wait fail."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    for call in self._waiting:
                        call.fail(TimeoutError("the service is stopping"))
                    return
                batch = self._next()
            batch = [c for c in batch if c.result.set_running_or_notify_cancel()]
            if batch:
                self._compute(batch)

    def _next(self) -> list[_Call]:
        """Takes the call that has waited longest, and those that can go with it."""
        first = self._waiting[0]
        most = max(1, min(self._max_batch, _MAX_PIXELS // first.pixels))
        batch = [call for call in self._waiting if call.key == first.key][:most]
        taken = set(map(id, batch))
        self._waiting = collections.deque(
            call for call in self._waiting if id(call) not in taken
        )
        return batch

    def _compute(self, batch: list[_Call]) -> None:
        first = batch[0]
        self._observe(first.function, len(batch))
        try:
            outputs = self._model.call(
                first.function, *_joined(batch), about=first.about
            )
        # Any error belongs to the waiting request, not to this thread.
        except Exception as error:
            if len(batch) == 1:
                first.result.set_exception(error)
                return
            for call in batch:  # One image must not spoil the others.
                self._compute([call])
            return
        for i, call in enumerate(batch):
            call.result.set_result({k: v[i : i + 1] for k, v in outputs.items()})


@dataclasses.dataclass(frozen=True)
class BatchedModel(LoadedModel):
    """A model whose calls go through a `Batcher`.

    Attributes:
        batcher: that makes the calls.
        deadline: by `time.monotonic`, of the request.
    """

    batcher: Batcher
    deadline: float

    def call(self, function: str, *tensors: Any, about: str) -> Outputs:
        """Calls a function for one image, as `LoadedModel.call` does.

        Raises:
            TimeoutError: the deadline has passed.
            ValueError: the model fails on the image.
        """
        return self.batcher.call(function, tensors, about, self.deadline)


class _Call:
    """A call for one image that waits for its turn.

    Its inputs are arrays of a batch of one, lists of one seed, and plain numbers.

    Attributes:
        key: calls with the same key can be joined.
        pixels: of all samples.
    """

    def __init__(self, function: str, tensors: tuple[Any, ...], about: str) -> None:
        self.function, self.tensors, self.about = function, tensors, about
        self.result: concurrent.futures.Future[Outputs] = concurrent.futures.Future()
        _, height, width, _ = tensors[0].shape
        samples = 1
        if function == "decode":
            samples = tensors[1].shape[1]
        elif len(tensors) > 1 and isinstance(tensors[1], int):
            samples = tensors[1]
        self.pixels = math.prod((height, width, samples))
        kinds = (t if isinstance(t, int) else np.shape(t) for t in tensors)
        self.key = (function, *kinds)

    def fail(self, error: Exception) -> None:
        """Makes the waiting request fail, unless it has given up."""
        if self.result.set_running_or_notify_cancel():
            self.result.set_exception(error)


def _joined(batch: Sequence[_Call]) -> list[Any]:
    """Returns the inputs of a call for all images.

    With a seed for each image, its samples do not depend on the others.
    """
    columns = zip(*(call.tensors for call in batch))
    return [_concatenated(parts) for parts in columns]


def _concatenated(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], int):
        return parts[0]
    dtype = np.int32 if isinstance(parts[0], list) else None
    return np.concatenate([np.asarray(part, dtype) for part in parts])
