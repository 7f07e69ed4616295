"""What all commands share: flags from configurations, `--help`, one-line errors."""

from __future__ import annotations

import dataclasses
import errno
import logging as python_logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import _environment  # noqa: F401  (before any package that may not be there)
from absl import app, flags, logging

import tf_probunet  # noqa: F401  (sets what TensorFlow reads when it is imported)

FLAGS = flags.FLAGS

_HELP = {"-h", "-help", "--help", "--helpshort", "--helpfull"}
# What TensorFlow says of a disk that can't be written to is no bug.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
# What it wraps its messages in: "{{node x}} <file>; <reason> [Op:SaveV2]".
_WRAPPING = re.compile(r"\{\{.*?\}\}|\[Op:.*", re.DOTALL)


def start(
    main: Callable[..., int | None],
    required: Sequence[str] = (),
    *,
    arguments: bool = False,
) -> None:
    """Parses the flags, calls `main` and exits: 0, or 1 with one clear line.

    Args:
        main: the command, called without arguments, or with the list of those that are
            no flags if `arguments` is true.
        required: names of flags that must be given.
        arguments: whether there may be arguments that are no flags.
    """
    if _HELP & set(sys.argv[1:]):
        print(_help_text())
        sys.exit(0)
    # Flags may stand behind other arguments.
    FLAGS.set_gnu_getopt(arguments)
    try:
        rest = FLAGS(sys.argv)[1:]
        if rest and not arguments:
            raise flags.Error(f"unexpected argument {rest[0]!r}; flags start with --")
        for name in required:
            if FLAGS[name].value in (None, ""):
                raise flags.Error(f"flag --{name} is required; see --help")
    except UnicodeDecodeError as error:
        named = [word for word in sys.argv[1:] if "flagfile" in word]
        _fail(ValueError(f"{' '.join(named)}: not a text file ({error})"))
    except RecursionError:  # absl, in search of a flag of a similar name
        _fail(flags.Error("an unknown flag whose name has hundreds of letters"))
    except (flags.Error, OSError, ValueError) as error:
        _fail(error)
    logging.set_verbosity(logging.ERROR)
    python_logging.getLogger("tensorflow").setLevel(python_logging.ERROR)
    run = (lambda: main(rest)) if arguments else main
    app.run(lambda _: _guarded(run), argv=sys.argv[:1], flags_parser=lambda argv: argv)


def define_config_flags(config_class: type, skip: Sequence[str] = ()) -> None:
    """Defines a flag for each field of a configuration dataclass.

    The help text, the choices and another name come from the field's metadata
    (`help`, `choices`, `flag`).
    """
    for field in dataclasses.fields(config_class):
        if field.name in skip:
            continue
        name = flag_name(field)
        text = field.metadata.get("help", field.name.replace("_", " "))
        choices = field.metadata.get("choices")
        kind = str(field.type).split("|")[0].strip()
        if choices:
            flags.DEFINE_enum(
                name, field.default, choices, text, module_name=main_module()
            )
        else:
            define = {
                "int": flags.DEFINE_integer,
                "float": flags.DEFINE_float,
                "bool": flags.DEFINE_bool,
                "str": flags.DEFINE_string,
            }[kind]
            define(name, field.default, text, module_name=main_module())


def config_from_flags(config_class: type, **fixed: Any) -> Any:
    """Builds a configuration from the flags that `define_config_flags` defined."""
    values = {
        field.name: FLAGS[flag_name(field)].value
        for field in dataclasses.fields(config_class)
        if field.name not in fixed
    }
    return config_class(**values, **fixed)


def flag_name(field: dataclasses.Field) -> str:
    """Returns the name of the flag for a field of a configuration."""
    return field.metadata.get("flag", field.name)


def main_module() -> str:
    """Returns the module whose flags `--help` shows."""
    return sys.argv[0]


def _help_text() -> str:
    main = sys.modules["__main__"]
    return f"{(main.__doc__ or '').strip()}\n\n{FLAGS.main_module_help()}"


def _guarded(main: Callable[[], int | None]) -> None:
    try:
        sys.exit(main() or 0)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        sys.exit(130)
    except (ValueError, OSError) as error:
        if os.environ.get("TF_PROBUNET_TRACEBACK"):
            raise
        _fail(error)
    except _tensorflow_errors() as error:
        about_disk = any(os.strerror(code) in error.message for code in _DISK_ERRORS)
        if os.environ.get("TF_PROBUNET_TRACEBACK") or not about_disk:
            raise
        _fail(OSError(_WRAPPING.sub("", error.message)))


def _tensorflow_errors() -> tuple[type[BaseException], ...]:
    """Returns the base of TensorFlow's errors, without loading it only for that."""
    tensorflow = sys.modules.get("tensorflow")
    return (tensorflow.errors.OpError,) if tensorflow else ()


def _fail(error: BaseException) -> None:
    text = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    text = " ".join(text.split())
    sys.stderr.write(f"error: {text or type(error).__name__}\n")
    sys.exit(1)
