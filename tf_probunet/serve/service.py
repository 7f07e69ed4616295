"""Turns an uploaded image into an answer. Knows nothing about HTTP."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import pathlib
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import PIL.Image

from tf_probunet.artifacts.saved_model import LoadedModel
from tf_probunet.imaging import read_dicom
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.predict import sampling
from tf_probunet.predict.config import MAX_HYPOTHESES, PredictConfig
from tf_probunet.predict.prediction import Prediction, check_extent, predict_image
from tf_probunet.predict.read_inputs import read_inputs
from tf_probunet.predict.summary import hypotheses, presence
from tf_probunet.serve.batching import Batcher
from tf_probunet.serve.config import ServeConfig

FORMATS = {"json": "application/json", "npz": "application/x-npz"}
_CROP = ("slice", "region", "center", "whole", "pad", "spacing_mm", "window")
_SUFFIXES = {
    b"\x89PNG\r\n\x1a\n": ".png",
    b"\xff\xd8\xff": ".jpg",
    b"II*\0": ".tif",
    b"MM\0*": ".tif",
    b"\x93NUMPY": ".npy",
}
_WARM_UP_SECONDS = 3600.0
# What error messages call the uploaded file.
_UPLOAD = "image"


class Answer(NamedTuple):
    """The content of a response, and its type."""

    content: bytes
    media_type: str


@dataclasses.dataclass(frozen=True)
class Request:
    """What a client asks for.

    Attributes:
        crop: which part of the image.
        num_samples: how many are drawn.
        hypotheses: how many are returned.
        seed: of the samples.
        format: "json" or "npz".
    """

    crop: CropConfig
    num_samples: int
    hypotheses: int
    seed: int
    format: str


class Service:
    """Segments uploaded images with one model."""

    def __init__(
        self,
        model: LoadedModel,
        config: ServeConfig,
        observe: Callable[[str, int], None] = lambda function, size: None,
    ) -> None:
        """Starts accepting images.

        Args:
            model: to segment with.
            config: the limits on what a request may ask for.
            observe: see `Batcher`.
        """
        # Clients need not know where on the server the model is.
        self.model = dataclasses.replace(model, path=pathlib.Path(model.path.name))
        self._config = config
        self._batcher = Batcher(self.model, config.max_batch, observe)

    def warm_up(self) -> None:
        """Segments an empty image as requests are, so that the first is no slower.

        Raises:
            ValueError: the model fails.
        """
        side = self.model.data.eval_size or 4 * self.model.size_divisor
        image = np.zeros([side, side, self.model.network.image_channels], np.float32)
        count = sampling.num_samples(self.model, PredictConfig().num_samples)
        for _ in sampling.draw(
            self._batcher.model(time.monotonic() + _WARM_UP_SECONDS),
            image,
            count=count,
            seed=0,
            tile_size=side,
            about="warm-up",
            sampling=sampling.default_sampling(self.model),
        ):
            pass

    def close(self) -> None:
        """Stops accepting images."""
        self._batcher.close()

    def answer(
        self, content: bytes, parameters: Mapping[str, str], deadline: float
    ) -> Answer:
        """Segments an uploaded image.

        Args:
            content: of a DICOM, PNG, TIFF, JPEG or NPY file with one image.
            parameters: of the query.
            deadline: by `time.monotonic`.

        Raises:
            TimeoutError: the deadline has passed.
            ValueError: the parameters or the image make no sense.
        """
        request = self._parse(parameters)
        with tempfile.TemporaryDirectory(prefix="tf_probunet_") as directory:
            path = pathlib.Path(directory) / f"{_UPLOAD}{_suffix(content)}"
            path.write_bytes(content)
            try:
                prediction = self._predict(path, request, deadline)
            except ValueError as error:
                # Flags of run/predict.py are parameters here.
                text = str(error).replace(str(path), _UPLOAD)
                text = text.replace(directory, _UPLOAD)
                raise ValueError(re.sub(r"--(?=[a-z])", "", text)) from error
        summary, chosen = self._summary(prediction, request)
        labels = prediction.labels[chosen]
        if request.format == "json":
            for hypothesis, label_map in zip(summary["hypotheses"], labels):
                hypothesis["png"] = base64.b64encode(_png(label_map)).decode()
            return Answer(json.dumps(summary).encode(), FORMATS["json"])
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            labels=labels,
            probabilities=[h["probability"] for h in summary["hypotheses"]],
            mean=prediction.mean,
            entropy=prediction.entropy,
            summary=np.array(json.dumps(summary)),
        )
        return Answer(buffer.getvalue(), FORMATS["npz"])

    def _parse(self, parameters: Mapping[str, str]) -> Request:
        known = (*_CROP, "num_samples", "hypotheses", "seed", "format")
        for name in parameters:
            if name not in known:
                raise ValueError(
                    f"unknown parameter {name!r}, expected one of {', '.join(known)}"
                )
        given: dict[str, Any] = {
            name: parameters[name] for name in _CROP if name in parameters
        }
        for name in ("whole", "pad"):
            if name in given:
                given[name] = _boolean(name, given[name])
        most = self._config.max_samples
        samples = min(PredictConfig().num_samples, most)
        crop = CropConfig(**given)
        if crop.follows:
            raise ValueError(f"center is {crop.center!r}, expected row,col")
        format_ = parameters.get("format", "json")
        if format_ not in FORMATS:
            raise ValueError(
                f"format is {format_!r}, expected one of {', '.join(FORMATS)}"
            )
        return Request(
            crop=crop,
            num_samples=_number(parameters, "num_samples", samples, 1, most),
            hypotheses=_number(parameters, "hypotheses", 4, 1, MAX_HYPOTHESES),
            seed=_number(parameters, "seed", 0, -(2**31), 2**31 - 1),
            format=format_,
        )

    def _predict(
        self, path: pathlib.Path, request: Request, deadline: float
    ) -> Prediction:
        image = _read(path, request.crop)
        check_extent([image], self.model, request.crop, 1)
        return predict_image(
            image,
            self._batcher.model(deadline),
            request.crop,
            PredictConfig(
                num_samples=request.num_samples,
                seed=request.seed,
                hypotheses=request.hypotheses,
            ),
        )

    def _summary(
        self, prediction: Prediction, request: Request
    ) -> tuple[dict[str, Any], np.ndarray]:
        """Returns the answer without label maps, and which samples it shows."""
        summary = {
            "model": self.model.path.name,
            "class_names": self.model.class_names,
            "shape": list(prediction.image.shape),
            "num_samples": len(prediction.labels),
            "seed": request.seed,
            "presence_probability": presence(prediction, self.model),
            **hypotheses(prediction, self.model),
            "notes": prediction.notes,
        }
        chosen = [one.sample for one in prediction.hypotheses.found]
        return summary, np.array(chosen)


def _read(path: pathlib.Path, crop: CropConfig) -> InputImage:
    if not path.suffix and not read_dicom.is_dicom(path):
        raise ValueError(
            f"{path}: of an unknown kind, expected DICOM, PNG, TIFF, JPEG or NumPy "
            "(.npy)"
        )
    images = read_inputs([str(path)], crop)
    if len(images) != 1:
        raise ValueError(f"{path}: holds {len(images)} images, --slice chooses one")
    return images[0]


def _suffix(content: bytes) -> str:
    """Returns the suffix that the readers know a file by; none for DICOM."""
    for start, suffix in _SUFFIXES.items():
        if content.startswith(start):
            return suffix
    return ""


def _number(
    parameters: Mapping[str, str], name: str, default: int, low: int, high: int
) -> int:
    text = parameters.get(name, str(default))
    # A longer text is never valid, and slow to read.
    if re.fullmatch(r"-?[0-9]{1,12}", text) and low <= int(text) <= high:
        return int(text)
    raise ValueError(
        f"{name} is {text[:40]!r}, expected a whole number from {low} to {high}"
    )


def _boolean(name: str, text: str) -> bool:
    values = {"true": True, "1": True, "": True, "false": False, "0": False}
    if text.lower() not in values:
        raise ValueError(f"{name} is {text[:40]!r}, expected true or false")
    return values[text.lower()]


def _png(labels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.fromarray(labels).save(buffer, "PNG")
    return buffer.getvalue()
