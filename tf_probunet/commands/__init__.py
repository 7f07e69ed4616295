"""The commands. `run/*.py` and `tf_probunet <command>` start them.

A command is a module here with a docstring (its help text), absl flags and `main()`.
`REQUIRED` lists the flags that must be given. If `TAKES_ARGUMENTS` is true, `main` gets
the arguments that are not flags.
"""

# Every command, in the order in which a newcomer meets them.
COMMANDS = (
    "demo",
    "predict",
    "explore",
    "serve",
    "prepare_folder",
    "prepare_lidc",
    "prepare_cityscapes",
    "prepare_phantom",
    "prepare_street_phantom",
    "prepare_fundus_phantom",
    "train",
    "train_ensemble",
    "export",
    "export_tflite",
    "export_onnx",
    "evaluate",
    "compare",
    "figures",
    "compare_models",
    "compare_settings",
    "compare_protocols",
    "compare_sampling",
    "model_table",
    "draw_architectures",
    "draw_curves",
)
