"""Reads the well-known pickle of LIDC slices without executing its content."""

from __future__ import annotations

import codecs
import collections
import dataclasses
import math
import mmap
import pathlib
import pickle
import pickletools
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from tf_probunet import files, limits
from tf_probunet.damage import reason
from tf_probunet.dataset.records import Example
from tf_probunet.hashing import content_hash
from tf_probunet.imaging.problem import Problem
from tf_probunet.preparation.lidc.source import NUM_GRADERS, Item, Source, add_example
from tf_probunet.preparation.runner import Unit, UnitResult

SIZE = 128

# Levels of nested containers.
_MAX_DEPTH = 50
# Values in a pickle, with shared ones counted wherever they appear. Hashing a key, and
# each call with it, visits all of them.
_MAX_WEIGHT = 10**8
# Bytes of Python's smallest container, with its place on the stack and in the memo.
_BYTES_PER_VALUE = 200

# Opcodes that change the value below the values they take.
_CHANGING = {"APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"}
# Opcodes that take values and produce none.
_IDLE = {"POP", "POP_MARK", "STOP"}

_TYPES = re.compile(r"[biuf]\d{1,2}|[SU]\d{1,4}")


@dataclasses.dataclass(frozen=True)
class SeriesTask:
    """Slices of a series: the name of their group, and (key, entry) pairs."""

    group: str
    entries: tuple[tuple[str, Any], ...]


def load(path: files.Path) -> Any:
    """Reads a pickle of NumPy arrays and plain containers only.

    The whole content is held in memory: pickles cannot be read in pieces.

    Args:
        path: the file.

    Returns:
        What was pickled.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, or asks for anything else to be imported.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such pickle")
    with open(path, "rb") as handle:
        try:
            check_opcodes(handle)
            handle.seek(0)
            return _RestrictedUnpickler(handle, encoding="latin1").load()
        except (
            pickle.UnpicklingError,
            ArithmeticError,
            AttributeError,
            EOFError,
            ImportError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            # The unpickler raises all of these for damaged files.
            raise ValueError(
                f"{path}: cannot read the pickle ({type(error).__name__}: "
                f"{reason(error)})"
            ) from error


def check_opcodes(handle: BinaryIO) -> None:
    """Follows a pickle without building anything, to bound what building would take.

    The unpickler allocates whatever sizes and memo places a file announces, and visits
    all values of a key, however often they are shared.

    Args:
        handle: the file.

    Raises:
        ValueError: a size, a place or a nesting makes no sense.
    """
    with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content:
        size = len(content)
        machine = _Machine()
        for opcode, argument in _opcodes(content):
            if opcode.name == "FRAME" and argument > size - content.tell():
                raise ValueError(f"a frame of {argument} bytes in a file of {size}")
            machine.follow(opcode, argument)


def source(path: files.Path) -> Source:
    """Reads a dict of key -> {`image`, `masks`, `series_uid`}.

    Args:
        path: the pickle.

    Returns:
        The slices by series: the file does not name the patients.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file cannot be read, or holds something else.
    """
    content = load(path)
    if not isinstance(content, dict) or not content:
        raise ValueError(
            f"{path}: expected a dict of slices, got {type(content).__name__}"
        )
    by_series = collections.defaultdict(list)
    problems = []
    for key, entry in content.items():
        uid = entry.get("series_uid") if isinstance(entry, dict) else None
        if not isinstance(key, (str, int)):
            where = f"a key of type {type(key).__name__}"
            problems.append(Problem("unusable entry", where, "expected a name"))
        elif isinstance(uid, str) and uid:
            by_series[uid].append((str(key), entry))
        else:
            problems.append(
                Problem("unusable entry", str(key), "expected a dict with series_uid")
            )
    return Source(
        items=[
            Item(uid, uid, SeriesTask(uid, tuple(entries)), (str(path),))
            for uid, entries in sorted(by_series.items())
        ],
        process=process_series,
        groups=sorted(by_series),
        image_size=SIZE,
        image_dtype="uint8",
        content=content_hash(
            f"{uid} {key}" for uid, entries in by_series.items() for key, _ in entries
        ),
        slices=[str(key) for key in content],
        problems=problems,
        counts={"slices in the pickle": len(content)},
    )


def split_by_slice(source: Source, split_of: Mapping[str, str]) -> Source:
    """Cuts each series into its slices of each split.

    Args:
        source: the slices by series.
        split_of: the split of each slice, by key.

    Returns:
        The same slices; a group is the part of a series that is in one split.
    """
    items: list[Item] = []
    splits: dict[str, list[str]] = {}
    for item in source.items:
        parts = collections.defaultdict(list)
        for key, entry in item.task.entries:
            parts[split_of[key]].append((key, entry))
        for split, entries in sorted(parts.items()):
            name = f"{item.name} ({split})"
            task = SeriesTask(name, tuple(entries))
            items.append(Item(name, name, task, item.inputs))
            splits.setdefault(split, []).append(name)
    groups = [item.group for item in items]
    return dataclasses.replace(source, items=items, groups=groups, splits=splits)


def process_series(unit: Unit) -> UnitResult:
    """Makes the examples of a series.

    Args:
        unit: with a split and a `SeriesTask`.

    Returns:
        Examples of [128, 128, 1] uint8 with four masks each.
    """
    split, task = unit.payload
    result = UnitResult()
    for key, entry in task.entries:
        try:
            image, labels = _image(entry), _labels(entry)
        except (KeyError, TypeError, ValueError) as error:
            result.problems.append(Problem("unusable entry", key, repr(error)))
            continue
        example = Example(
            key=key, group=task.group, image=image[..., None], labels=labels
        )
        add_example(result, split, example)
    return result


class _Load:
    """The size of a value of the unpickler.

    Attributes:
        depth: levels of containers.
        weight: number of values in it, with shared ones counted each time.
        is_part: whether it is part of another value. It must not change any more then,
            because the size of the other value would be wrong.
    """

    __slots__ = ("depth", "weight", "is_part")

    def __init__(self) -> None:
        self.depth = self.weight = 1
        self.is_part = False


def _opcodes(
    content: mmap.mmap,
) -> Iterator[tuple[pickletools.OpcodeInfo, Any]]:
    """Yields the opcodes with their arguments, up to the one that ends a pickle."""
    known = {opcode.code.encode("latin1"): opcode for opcode in pickletools.opcodes}
    name = None
    while name != "STOP":
        opcode = known[content.read(1)]
        name, argument = opcode.name, None
        if name == "STRING":
            content.readline()  # Python 2 wrote bytes there that are not text.
        elif opcode.arg is not None:
            argument = opcode.arg.reader(content)  # type: ignore[arg-type]
        yield opcode, argument


class _Machine:
    """Imitates the unpickler, with sizes instead of values."""

    def __init__(self) -> None:
        self._stack: list[_Load | None] = []  # None is a mark.
        self._memo: dict[int, _Load] = {}
        self._weight = self._values = 0

    def follow(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        """Imitates an opcode.

        Raises:
            ValueError: its result is out of bounds.
            LookupError: there is no such value.
        """
        stack, memo = self._stack, self._memo
        if isinstance(argument, int) and abs(argument) >= 2**64:
            # Larger ones can all have the same hash, and a dict of them takes forever.
            raise ValueError("a whole number of over 64 bits")
        if "GET" in opcode.name:
            stack.append(memo[int(argument)])
        elif "PUT" in opcode.name or opcode.name == "MEMOIZE":
            place = len(memo) if argument is None else int(argument)
            if place > len(memo):
                raise ValueError(f"memo place {place}, expected at most {len(memo)}")
            memo[place] = self._top()
        elif opcode.name == "DUP":
            stack.append(self._top())
        elif opcode.stack_before:
            self._make(opcode)
        else:
            for kind in opcode.stack_after:
                stack.append(None if kind is pickletools.markobject else _Load())
        self._values += 1
        limits.check(self._values * _BYTES_PER_VALUE, "what the pickle holds")

    def _make(self, opcode: pickletools.OpcodeInfo) -> None:
        taken = self._take(opcode)
        changed = taken.pop() if opcode.name in _CHANGING else None
        if opcode.name not in _IDLE:
            for load in taken:
                load.is_part = True
        if changed is not None and changed.is_part:
            raise ValueError("it changes a value that is already part of another")
        made = changed or _Load()
        made.depth = max([made.depth, *(1 + load.depth for load in taken)])
        weight = sum(load.weight for load in taken)
        made.weight += weight
        self._weight += weight
        if made.depth > _MAX_DEPTH or self._weight > _MAX_WEIGHT:
            raise ValueError(f"over {_MAX_DEPTH} levels or {_MAX_WEIGHT} values")
        self._stack += [made] * len(opcode.stack_after)

    def _take(self, opcode: pickletools.OpcodeInfo) -> list[_Load]:
        """Takes an opcode's values off the stack, the topmost first."""
        taken, below = [], len(opcode.stack_before)
        if pickletools.markobject in opcode.stack_before:
            below = opcode.stack_before.index(pickletools.markobject)
            while (load := self._stack.pop()) is not None:
                taken.append(load)
        for _ in range(below):
            taken.append(self._top())
            self._stack.pop()
        return taken

    def _top(self) -> _Load:
        if self._stack[-1] is None:
            raise ValueError("a mark where a value was expected")
        return self._stack[-1]


class _RestrictedUnpickler(pickle.Unpickler):
    """Builds NumPy arrays and scalars; refuses every other class and function."""

    def find_class(self, module: str, name: str) -> Any:
        # As NumPy 2 and Python 2 call them.
        module = module.replace("numpy._core", "numpy.core")
        module = {"__builtin__": "builtins"}.get(module, module)
        if (module, name) in _ADMITTED:
            return _ADMITTED[module, name]
        raise pickle.UnpicklingError(
            f"refused to import {module}.{name}, expected NumPy arrays and plain "
            f"containers only"
        )


class _DType:
    """Replaces `numpy.dtype`, which trusts the state in a pickle."""

    def __init__(self, text: str, align: Any = False, copy: Any = True) -> None:
        if not (isinstance(text, str) and _TYPES.fullmatch(text)):
            raise ValueError(f"refused the type {text!r}, expected numbers or text")
        self.real = np.dtype(text)

    def __setstate__(self, state: tuple) -> None:
        if not (isinstance(state, tuple) and len(state) > 1 and state[1] in _ORDERS):
            raise ValueError("refused the state of a type")
        self.real = self.real.newbyteorder(state[1])


class _Array(np.ndarray):
    """An array whose only state is its content."""

    def __new__(cls) -> _Array:
        return super().__new__(cls, (0,), np.int8)

    def __setstate__(self, state: tuple) -> None:
        _, shape, dtype, is_fortran, content = state
        content = _content(content, dtype, shape)
        plain: Any = (1, shape, dtype.real, bool(is_fortran), content)
        super().__setstate__(plain)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Workers get a plain array.
        return np.asarray(self).__reduce_ex__(protocol)


def _content(content: Any, dtype: Any, shape: Any) -> bytes:
    """Returns the bytes of an array, after checking their number."""
    if isinstance(content, str):  # As Python 2 wrote it.
        content = content.encode("latin1")
    is_shape = isinstance(shape, tuple) and all(
        type(length) is int and length >= 0 for length in shape
    )
    if not is_shape or not isinstance(dtype, _DType):
        raise ValueError("refused an array without a plain shape and type")
    if not isinstance(content, (bytes, bytearray)):
        raise ValueError(f"refused an array of {type(content).__name__}")
    if math.prod(shape) * dtype.real.itemsize != len(content):
        raise ValueError(f"refused {len(content)} bytes as an array of {list(shape)}")
    return bytes(content)


def _reconstruct(kind: type, shape: Any, typecode: Any) -> _Array:
    if kind is not _Array:
        raise ValueError("refused to make anything other than an array")
    return _Array()


def _scalar(dtype: _DType, content: Any) -> np.generic:
    return np.frombuffer(_content(content, dtype, ()), dtype.real)[0]


def _frombuffer(content: Any, dtype: _DType, shape: Any, order: str) -> np.ndarray:
    if order not in ("C", "F"):
        raise ValueError("refused an array whose order is neither C nor F")
    return np.ndarray(
        shape,
        dtype.real,
        _content(content, dtype, shape),
        order="F" if order == "F" else "C",
    )


def _encode_latin1(text: str, encoding: str) -> bytes:
    """Replaces `codecs.encode`, which old protocols use to write bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"refused the codec {encoding!r}")
    return codecs.latin_1_encode(text)[0]


_ORDERS = ("<", ">", "|", "=")
_ADMITTED: Mapping[tuple[str, str], Any] = {
    ("_codecs", "encode"): _encode_latin1,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "set"): set,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("numpy", "dtype"): _DType,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
}


def _image(entry: dict[str, Any]) -> np.ndarray:
    """Returns the image as grey values, [128, 128] uint8."""
    image = _numbers(entry["image"], "image")
    if not (image.min() >= 0 and image.max() <= 1):  # also refuses NaN
        raise ValueError(
            f"image values from {image.min()} to {image.max()}, expected 0 to 1"
        )
    return np.rint(image * 255).astype(np.uint8)


def _labels(entry: dict[str, Any]) -> np.ndarray:
    """Returns the masks, [4, 128, 128] uint8."""
    number = len(entry["masks"])
    if number != NUM_GRADERS:
        raise ValueError(f"{number} masks, expected {NUM_GRADERS}")
    masks = np.stack([_numbers(mask, "mask") for mask in entry["masks"]])
    if not np.isin(masks, (0, 1)).all():
        raise ValueError("mask values other than 0 and 1")
    return masks.astype(np.uint8)


def _numbers(value: Any, what: str) -> np.ndarray:
    """Returns an array of [128, 128] as float64; refuses everything else."""
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{what} of type {type(value).__name__}, expected an array")
    if value.shape != (SIZE, SIZE):
        raise ValueError(f"{what} of shape {value.shape}, expected {(SIZE, SIZE)}")
    return np.asarray(value, np.float64)
