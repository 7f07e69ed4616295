"""What all commands share: flags from configurations, `--help`, one-line errors."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags, logging

FLAGS = flags.FLAGS


def start(main: Callable[[], int | None], required: Sequence[str] = ()) -> None:
    """Parses the flags, calls `main` and exits: 0, or 1 with one clear line.

    Args:
        main: the command, called without arguments.
        required: names of flags that must be given.
    """
    if {"--help", "-h", "-help"} & set(sys.argv[1:]):
        print(_help_text())
        sys.exit(0)
    try:
        rest = FLAGS(sys.argv)[1:]
        if rest:
            raise flags.Error(f"unexpected argument {rest[0]!r}; flags start with --")
        for name in required:
            if FLAGS[name].value in (None, ""):
                raise flags.Error(f"flag --{name} is required; see --help")
    except (flags.Error, OSError) as error:
        _fail(error)
    logging.set_verbosity(logging.WARNING)
    app.run(lambda _: _guarded(main), argv=sys.argv[:1], flags_parser=lambda argv: argv)


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
            flags.DEFINE_enum(name, field.default, choices, text, module_name=_main())
        else:
            define = {
                "int": flags.DEFINE_integer,
                "float": flags.DEFINE_float,
                "bool": flags.DEFINE_bool,
                "str": flags.DEFINE_string,
            }[kind]
            define(name, field.default, text, module_name=_main())


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


def _main() -> str:
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


def _fail(error: BaseException) -> None:
    text = " ".join(str(error).split())
    sys.stderr.write(f"error: {text or type(error).__name__}\n")
    sys.exit(1)
