"""The models and ablations that are compared, and the steps that each goes through."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from tf_probunet import files

RUN = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Compared:
    """A row of the table: how it is called, and its flags beside those of all."""

    key: str
    title: str
    flags: tuple[str, ...]
    is_ensemble: bool = False


MODELS = (
    Compared("prob_unet", "Probabilistic U-Net", ("--model=prob_unet",)),
    Compared("unet", "U-Net Ensemble", (), is_ensemble=True),
    Compared("dropout_unet", "Dropout U-Net", ("--model=dropout_unet",)),
    *(
        Compared(
            f"m_heads_{number}",
            f"M-Heads, {number} heads",
            ("--model=m_heads", f"--num_heads={number}"),
        )
        for number in (4, 8, 16)
    ),
    Compared("image2image_vae", "Image2Image VAE", ("--model=image2image_vae",)),
    Compared("fixed_prior", "ablation: fixed prior", ("--fixed_prior",)),
    Compared(
        "blind_posterior",
        "ablation: fixed prior, posterior without image",
        ("--fixed_prior", "--noposterior_sees_image"),
    ),
    Compared(
        "early_injection", "ablation: latents at the start", ("--injection=start",)
    ),
)


def chosen(keys: Sequence[str]) -> list[Compared]:
    """Returns the models of these keys and the first, which is always there.

    Args:
        keys: some of the models' keys; none for all models.

    Raises:
        ValueError: there is no such model.
    """
    known = [model.key for model in MODELS]
    for key in keys:
        if key not in known:
            raise ValueError(f"models has {key!r}, expected of {', '.join(known)}")
    return [m for m in MODELS if not keys or m.key in (*keys, known[0])]


class Pieces:
    """The pieces of work of one comparison, each done once.

    A piece that is done leaves a note beside the results; a second run skips it.
    """

    def __init__(self, out_dir: files.Path, settings: dict[str, object]) -> None:
        """Makes the directory, or checks that it is of the same comparison.

        Args:
            out_dir: where everything goes.
            settings: all that the results depend on.

        Raises:
            ValueError: the directory holds a comparison of other settings.
        """
        self.path = pathlib.Path(out_dir)
        self._notes = self.path / "done"
        known = self.path / "settings.json"
        if not known.exists():
            files.write_json(known, settings)
        before = files.read_json(known, "settings of the comparison")
        for name in sorted({*before, *settings}):
            if before.get(name) != settings.get(name):
                raise ValueError(
                    f"{self.path}: holds a comparison with {name} "
                    f"{before.get(name)!r}, not {settings.get(name)!r}; choose another "
                    "--out_dir"
                )

    def run(self, name: str, *words: object) -> float:
        """Runs a command unless it is done, and returns its seconds.

        The seconds of runs that were stopped count, too.

        Raises:
            SystemExit: it failed or was stopped; with its exit code.
        """
        note = self._notes / f"{name}.json"
        before = files.read_json(note, "note") if note.exists() else {"seconds": 0.0}
        if before.get("done"):
            print(f"{name}: done before", flush=True)
            return before["seconds"]
        print(f"\n$ python run/{' '.join(map(str, words))}", flush=True)
        start = time.monotonic()
        try:
            code = self._call([str(RUN / str(words[0])), *map(str, words[1:])])
        finally:
            seconds = before["seconds"] + time.monotonic() - start
            files.write_json(note, {"seconds": seconds, "done": False})
        if code:
            sys.exit(code)
        files.write_json(note, {"seconds": seconds, "done": True})
        return seconds

    def _call(self, words: list[str]) -> int:
        """Waits for the command also after Ctrl-C, which reaches it as well."""
        process = subprocess.Popen([sys.executable, *words])
        while True:
            try:
                code = process.wait()
                return 128 - code if code < 0 else code
            except KeyboardInterrupt:
                continue

    def remember(self, name: str, compute: Callable[[], dict]) -> dict:
        """Returns what `compute` gave, now or in an earlier run."""
        note = self._notes / f"{name}.json"
        if not note.exists():
            files.write_json(note, compute())
        return json.loads(note.read_text(encoding="utf-8"))


def time_samples(saved_model: pathlib.Path, size: int, repeats: int) -> dict:
    """Times 16 samples of one image, or as many as there are; the best run counts."""
    import tensorflow as tf

    metadata = files.read_json(saved_model / "assets" / "metadata.json", "metadata")
    config = files.read_json(saved_model / "assets" / "config.json", "configuration")
    count = min(16, metadata["max_samples"] or 16)
    model = tf.saved_model.load(str(saved_model))
    image = tf.zeros([1, size, size, config["model"]["image_channels"]])
    seconds = []
    for _ in range(repeats + 2):  # The first calls make the graph ready.
        start = time.perf_counter()
        model.sample(image, count, 0)["labels"].numpy()
        seconds.append(time.perf_counter() - start)
    return {"seconds": min(seconds[2:]), "samples": count}
