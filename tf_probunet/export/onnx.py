"""ONNX files that sample segmentations wherever ONNX Runtime runs."""

from __future__ import annotations

import logging
import pathlib
import tempfile
from types import ModuleType
from typing import Any

import numpy as np

from tf_probunet import files, locks
from tf_probunet.export import convertible, tflite

# The first one with all operations that are used; older runtimes know it.
OPSET = 17
# Largest difference of a probability or latent from the original; relative to a latent
# beyond 1, whose last digits differ by more.
TOLERANCE = 1e-5
_OUTPUT_RANKS = {"labels": 4, "probabilities": 5, "z": 3}


@locks.holding("out_file", locks.beside)
def export_onnx(
    run_dir: files.Path | None,
    out_file: files.Path,
    *,
    saved_model: files.Path | None = None,
    image_size: int | None = None,
    checkpoint: str = "best",
    overwrite: bool = False,
) -> float:
    """Writes the sampling path of a model, and a JSON file that describes it.

    The file maps `image` [1, H, W, C] and `noise` [1, S, L], standard normal numbers
    that the caller draws, to `labels` [1, S, H, W], `probabilities` [1, S, H, W, K] and
    the latents `z` [1, S, L]. S may change from call to call. Before it is written, it
    is compared with the original.

    Args:
        run_dir: of the training; None with `saved_model`.
        out_file: where to write; the description has the same name and `.json`.
        saved_model: a SavedModel of `run/export.py`, instead of a run.
        image_size: height and width of the images; None for the evaluation's.
        checkpoint: of the run: "best" by validation, or "last".
        overwrite: replace the files if they exist.

    Returns:
        The largest difference of a probability or latent from the original.

    Raises:
        FileNotFoundError: there is no run, no checkpoint in it, or no SavedModel.
        ValueError: `out_file` exists already or does not end in `.onnx`, the model has
            no latents, the down-samplings do not allow the size, the extra `onnx` is
            not installed, the conversion differs from the original, or another command
            is writing the file.
    """
    out_file = convertible.check_target(out_file, ".onnx", overwrite)
    _packages()
    source = convertible.load(run_dir, saved_model, checkpoint=checkpoint)
    size = source.size(image_size)
    content = convert(source.model, size)
    difference = compare(content, source, size)
    if not difference <= TOLERANCE:
        raise ValueError(
            f"{out_file}: not written, the conversion differs from the model by "
            f"{difference:.1e}, expected at most {TOLERANCE:.0e}; try other versions "
            "of tf2onnx and onnxruntime"
        )
    description = source.describe(size, opset=OPSET, difference=difference)
    convertible.write(out_file, content, description)
    return difference


def convert(model: Any, image_size: int) -> bytes:
    """Converts the sampling path, by way of TensorFlow Lite.

    TensorFlow Lite's converter leaves only plain operations. tf2onnx alone would keep
    some that ONNX does not have, and report success.

    Args:
        model: a ProbUNet with its weights.
        image_size: H and W.

    Returns:
        The content of an `.onnx` file.

    Raises:
        ValueError: the model has no latents, the down-samplings do not allow the size,
            or the extra `onnx` is not installed.
    """
    tf2onnx, onnx, _ = _packages()
    content = tflite.convert(model, image_size)
    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "model.tflite"
        path.write_bytes(content)
        converted, _ = tf2onnx.convert.from_tflite(str(path), opset=OPSET)
    _rename(converted.graph)
    onnx.checker.check_model(converted, full_check=True)
    return converted.SerializeToString()


def compare(content: bytes, source: convertible.Convertible, size: int) -> float:
    """Returns how much an ONNX file differs from the model that it was made from.

    Args:
        content: of the file.
        source: the model.
        size: H and W.

    Returns:
        The largest difference of a probability or latent, over two sample counts;
        infinite where clearly decided labels differ.
    """
    session = run_session(content)
    differences = []
    for num_samples in (3, 2):
        image, noise = convertible.example(source.model, size, num_samples)
        names = list(_OUTPUT_RANKS)
        found = dict(zip(names, session.run(names, {"image": image, "noise": noise})))
        expected = source.sample(image, noise)
        differences += [
            (np.abs(found[name] - wanted) / np.maximum(1.0, np.abs(wanted))).max()
            for name, wanted in expected.items()
            if name != "labels"
        ]
        best = np.sort(expected["probabilities"], axis=-1)
        clear = best[..., -1] - best[..., -2] > 2 * TOLERANCE
        if (found["labels"] != expected["labels"])[clear].any():
            differences.append(np.inf)
    return float(np.max(differences))


def run_session(content: bytes) -> Any:
    """Opens an ONNX file's content with ONNX Runtime, on the CPU.

    Raises:
        ValueError: the extra `onnx` is not installed.
    """
    *_, onnxruntime = _packages()
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def _packages() -> tuple[ModuleType, ModuleType, ModuleType]:
    """Imports what only this module needs."""
    try:
        import onnx
        import onnxruntime
        import tf2onnx
    except ImportError as error:
        raise ValueError(
            f"for ONNX files, pip install 'tf_probunet[onnx]' ({error})"
        ) from error
    return tf2onnx, onnx, onnxruntime


def _rename(graph: Any) -> None:
    """Gives inputs and outputs the names that the SavedModel has for them.

    TensorFlow Lite's names depend on the version. The inputs' contain our names, and
    the outputs differ in their number of axes.
    """
    names = {}
    for value in graph.input:
        names[value.name] = "image" if "image" in value.name else "noise"
    for value in graph.output:
        rank = len(value.type.tensor_type.shape.dim)
        (name,) = [n for n, r in _OUTPUT_RANKS.items() if r == rank]
        if value.name in names:  # The noise itself, where the prior is standard normal.
            graph.node.add(op_type="Identity", input=[value.name], output=[name])
            value.name = name
        else:
            names[value.name] = name
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
