"""The JSON of TensorFlow Serving's REST interface, to tensors and back.

A request holds `inputs`, an object with all inputs of the signature by name, or
`instances`, a list with one entry for each image; the response then holds `outputs` or
`predictions`. A signature with one input or output needs no names.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tensorflow as tf


def predict(loaded: Any, request: str) -> str:
    """Answers the body of a request to `:predict` as a server does.

    Raises:
        ValueError: an input is missing or unknown, or there are no inputs.
    """
    body = json.loads(request)
    signature = loaded.signatures[body.get("signature_name", "serving_default")]
    specs = signature.structured_input_signature[1]
    if "instances" in body:
        values = _columns(body["instances"], specs)
    elif "inputs" in body:
        values = body["inputs"] if len(specs) > 1 else _named(body["inputs"], specs)
    else:
        raise ValueError("expected `inputs` or `instances` in the request")
    if set(values) != set(specs):
        raise ValueError(f"got the inputs {sorted(values)}, expected {sorted(specs)}")
    tensors = {name: tf.constant(values[name], specs[name].dtype) for name in specs}
    outputs = {k: v.numpy().tolist() for k, v in signature(**tensors).items()}
    if "instances" in body:
        rows = [dict(zip(outputs, row)) for row in zip(*outputs.values())]
        return json.dumps({"predictions": rows})
    return json.dumps({"outputs": outputs})


def _named(value: Any, specs: dict[str, tf.TensorSpec]) -> dict[str, Any]:
    """Gives the only input its name, unless the request does."""
    (name,) = specs
    return value if isinstance(value, dict) else {name: value}


def _columns(rows: list[Any], specs: dict[str, tf.TensorSpec]) -> dict[str, Any]:
    named = [_named(row, specs) if len(specs) == 1 else row for row in rows]
    return {name: np.array([row[name] for row in named]) for name in named[0]}
