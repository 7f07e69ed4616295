"""Code that all commands share: flags, `--help`, one-line errors, signals."""

from __future__ import annotations

import ast
import dataclasses
import errno
import importlib
import logging as python_logging
import os
import pathlib
import re
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FrameType, ModuleType
from typing import Any

from absl import app, flags, logging

from tf_probunet import progress
from tf_probunet.artifacts import pretrained
from tf_probunet.commands import COMMANDS
from tf_probunet.config import INTS, SIZE, field_types

FLAGS = flags.FLAGS

_HELP = {"-h", "-help", "--help", "--helpshort", "--helpfull"}
# TensorFlow's errors about a full or read-only disk are not bugs: no traceback.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
_RESOURCE_EXHAUSTED = 8  # TensorFlow's error code for too little memory.
# TensorFlow wraps its messages: "{{node x}} <file>; <reason> [Op:SaveV2]".
_WRAPPING = re.compile(r"\{\{.*?\}\}|\[Op:.*", re.DOTALL)
# A command as the documents have it, but not at the end of a longer path.
_SCRIPT = re.compile(rf"(?<![\w./])(?:python )?run/({'|'.join(COMMANDS)})\.py")
# How the command `tf_probunet` calls itself: see __main__.
PROGRAM = "tf_probunet"


# The module of the running command; None for a script with flags of its own.
_module: str | None = None


def run(name: str) -> None:
    """Runs a command of this package with the arguments of the process, and exits."""
    module = _load(name)
    start(
        module.main,
        getattr(module, "REQUIRED", ()),
        arguments=getattr(module, "TAKES_ARGUMENTS", False),
    )


def flag_names(name: str) -> list[str]:
    """Returns the flags of a command that has not been loaded before."""
    before = set(FLAGS)
    _load(name)
    return sorted(set(FLAGS) - before)


def _load(name: str) -> ModuleType:
    global _module
    _module = f"{__package__}.{name}"
    return importlib.import_module(_module)


def summary(name: str) -> str:
    """Returns the first line of a command's help text, without importing it.

    It names other commands as words after `tf_probunet`.
    """
    path = pathlib.Path(__file__).with_name(f"{name}.py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return _without_scripts(text.partition("\n")[0])


def show(text: str) -> None:
    """Prints a text that the reader may cut off, as with `| head`."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Python would try to write the rest when it ends, and report an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def start(
    main: Callable[..., int | None],
    required: Sequence[str] = (),
    *,
    arguments: bool = False,
) -> None:
    """Parses the flags, calls `main` and exits: 0, or 1 with one clear line.

    Args:
        main: the command. If `arguments` is true, it gets the list of arguments that
            are not flags.
        required: names of flags that must be given.
        arguments: whether arguments that are not flags are allowed.
    """
    if _HELP & set(sys.argv[1:]):
        show(_help_text())
        sys.exit(0)
    # Flags may follow other arguments.
    FLAGS.set_gnu_getopt(arguments)
    try:
        rest = FLAGS(with_packaged_flag_files(sys.argv))[1:]
        if rest and not arguments:
            raise flags.Error(f"unexpected argument {rest[0]!r}; flags start with --")
        for name in required:
            if FLAGS[name].value in (None, ""):
                raise flags.Error(f"flag --{name} is required; see --help")
    except UnicodeDecodeError as error:
        named = [word for word in sys.argv[1:] if "flagfile" in word]
        _fail(ValueError(f"{' '.join(named)}: not a text file ({error})"))
    except RecursionError:  # absl, while it searches for similar flags
        _fail(flags.Error("an unknown flag whose name has hundreds of letters"))
    except (flags.Error, OSError, ValueError) as error:
        _fail(error)
    logging.set_verbosity(logging.ERROR)
    python_logging.getLogger("tensorflow").setLevel(python_logging.ERROR)
    _stop_on_signals()
    run = (lambda: main(rest)) if arguments else main
    app.run(lambda _: _guarded(run), argv=sys.argv[:1], flags_parser=lambda argv: argv)


def define_config_flags(
    config_class: type,
    skip: Sequence[str] = (),
    flag_values: flags.FlagValues = FLAGS,
) -> None:
    """Defines a flag for each field of a configuration dataclass.

    The field's metadata give the help text, the choices and another name for the flag
    (`help`, `choices`, `flag`).
    """
    types = field_types(config_class)
    place = {"module_name": main_module(), "flag_values": flag_values}
    for field in dataclasses.fields(config_class):
        if field.name in skip:
            continue
        name = flag_name(field)
        text = field.metadata.get("help", field.name.replace("_", " "))
        choices = field.metadata.get("choices")
        default = None if field.default is dataclasses.MISSING else field.default
        if choices:
            flags.DEFINE_enum(name, default, choices, text, **place)
            continue
        kind = types[field.name][0]
        if kind == INTS and default is not None:
            default = [str(number) for number in default]
        if kind == SIZE:
            default = str(default)
        define = {
            int: flags.DEFINE_integer,
            float: flags.DEFINE_float,
            bool: flags.DEFINE_bool,
            str: flags.DEFINE_string,
            INTS: flags.DEFINE_list,
            SIZE: flags.DEFINE_string,
        }[kind]
        define(name, default, text, **place)


def config_from_flags(
    config_class: type, flag_values: flags.FlagValues = FLAGS, **fixed: Any
) -> Any:
    """Builds a configuration from the flags that `define_config_flags` defined.

    Raises:
        ValueError: a value is not allowed.
    """
    types = field_types(config_class)
    values = {}
    for field in dataclasses.fields(config_class):
        if field.name not in fixed:
            value = flag_values[flag_name(field)].value
            kind = types[field.name][0]
            if kind == INTS and value is not None:
                value = _integers(field, value)
            elif kind == SIZE:
                value = _size(field, value)
            values[field.name] = value
    return config_class(**values, **fixed)


def refuse_flags(names: Iterable[str], why: str) -> None:
    """Refuses flags that would have no effect.

    Raises:
        ValueError: one of them is given.
    """
    for name in names:
        if FLAGS[name].present:
            raise ValueError(f"--{name} is given, but {why}")


def config_flag_names(config_class: type) -> list[str]:
    """Returns the names of the flags that `define_config_flags` defined."""
    return [flag_name(field) for field in dataclasses.fields(config_class)]


def flag_name(field: dataclasses.Field) -> str:
    """Returns the name of the flag for a field of a configuration."""
    return field.metadata.get("flag", field.name)


def _integers(field: dataclasses.Field, texts: Sequence[str]) -> tuple[int, ...]:
    if not all(text.strip().isdecimal() for text in texts):
        example = str(field.default or (1, 4, 8, 16)).strip("()").replace(" ", "")
        raise ValueError(
            f"{flag_name(field)} is {','.join(texts)!r}, expected numbers such as "
            f"{example}"
        )
    return tuple(map(int, texts))


def _size(field: dataclasses.Field, text: str) -> int | tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"{flag_name(field)} is {text!r}, expected a number such as {field.default}"
            ", or a height and a width such as 96,128"
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers


def main_module() -> str:
    """Returns the module whose flags `--help` shows."""
    return _module or sys.argv[0]


def with_packaged_flag_files(words: Sequence[str]) -> list[str]:
    """Returns a command line with paths to the flag files that come with the package.

    A file of that name in the working directory is used instead.
    """
    found = list(words)
    for index, word in enumerate(words):
        flag, equals, name = word.partition("=")
        if flag not in ("-flagfile", "--flagfile"):
            continue
        if not equals:  # The name is the next word.
            name = words[index + 1] if index + 1 < len(words) else ""
        packaged = None if os.path.exists(name) else pretrained.flag_file(name)
        if packaged and equals:
            found[index] = f"{flag}={packaged}"
        elif packaged:
            found[index + 1] = str(packaged)
    return found


def as_started(text: str) -> str:
    """Names the commands in a text as the user has typed this one."""
    return _without_scripts(text) if sys.argv[0].startswith(f"{PROGRAM} ") else text


def _without_scripts(text: str) -> str:
    return _SCRIPT.sub(lambda match: f"{PROGRAM} {command_word(match[1])}", text)


def command_word(name: str) -> str:
    """Returns the word for a command behind `tf_probunet`."""
    return name.replace("_", "-")


def _help_text() -> str:
    main = sys.modules[_module or "__main__"]
    flags_of_it = FLAGS.module_help(main_module()).strip().partition("\n")[2]
    return as_started(f"{(main.__doc__ or '').strip()}\n\nflags:\n{flags_of_it}")


def _guarded(main: Callable[[], int | None]) -> None:
    try:
        sys.exit(main() or 0)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        sys.exit(130)
    except (flags.Error, ValueError, OSError) as error:
        if os.environ.get("TF_PROBUNET_TRACEBACK"):
            raise
        _fail(error)
    except _tensorflow_errors() as error:
        about_disk = any(os.strerror(code) in error.message for code in _DISK_ERRORS)
        if os.environ.get("TF_PROBUNET_TRACEBACK"):
            raise
        if about_disk:
            _fail(OSError(_WRAPPING.sub("", error.message)))
        if error.error_code != _RESOURCE_EXHAUSTED:
            raise
        _fail(ValueError(_no_memory(error.message)))
    except MemoryError as error:
        if os.environ.get("TF_PROBUNET_TRACEBACK"):
            raise
        _fail(ValueError(_no_memory(str(error))))


def _no_memory(message: str) -> str:
    said = [line for line in message.splitlines() if "OOM" in line or "alloc" in line]
    reason = (
        _WRAPPING.sub("", said[0]).strip()[:200] if said else "no room for an array"
    )
    return f"out of memory ({reason}); use smaller images, batches or networks"


def _stop_on_signals() -> None:
    """Lets SIGTERM and SIGHUP end the command like an error, so that it cleans up.

    While a training runs, it handles these signals itself and saves first.
    """
    numbers = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        # nohup ignores SIGHUP, so that the command survives its terminal.
        if signal.getsignal(number) != signal.SIG_IGN
    ]

    def stop(number: int, frame: FrameType | None) -> None:
        for other in numbers:  # A second signal would interrupt the cleanup.
            signal.signal(other, signal.SIG_IGN)
        progress.leave_closed_terminal()
        sys.stderr.write(f"\nstopped by {signal.Signals(number).name}\n")
        sys.exit(128 + number)

    for number in numbers:
        signal.signal(number, stop)


def _tensorflow_errors() -> tuple[Any, ...]:
    """Returns the base class of TensorFlow's errors if TensorFlow is loaded."""
    tensorflow = sys.modules.get("tensorflow")
    return (tensorflow.errors.OpError,) if tensorflow else ()


def _fail(error: BaseException) -> None:
    text = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    text = as_started(" ".join(text.split()))
    sys.stderr.write(f"error: {text or type(error).__name__}\n")
    sys.exit(1)
