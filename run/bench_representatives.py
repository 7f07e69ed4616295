"""Times the choice of weighted hypotheses against the drawing of their samples.

    python run/bench_representatives.py --data_dir=runs/lidc --split=val

The times are processor times, means over images. The command fails if choosing four
hypotheses takes longer than drawing.
"""

import time

import _start  # noqa: F401  (the checkout's own package)
import numpy as np
from absl import flags

from tf_probunet.artifacts import pretrained
from tf_probunet.commands import cli

flags.DEFINE_string("saved_model", None, "with latents; by default the pretrained one")
flags.DEFINE_string("data_dir", None, "a prepared data set")
flags.DEFINE_string("split", "val", "of the data set")
flags.DEFINE_integer("num_images", 20, "number of images", lower_bound=1)
flags.DEFINE_integer("num_samples", 256, "samples of an image", lower_bound=2)

COUNTS = (2, 4, 8)


def main() -> int:
    from tf_probunet.artifacts import saved_model
    from tf_probunet.dataset import input_pipeline, records
    from tf_probunet.predict import sampling
    from tf_probunet.predict.hypotheses import choose, label_set

    values = cli.FLAGS
    model = saved_model.load(values.saved_model or pretrained.model_path())
    info = records.read_info(values.data_dir)
    examples = input_pipeline.evaluation_examples(info, values.split, model.data)
    times = []
    # The first image builds graphs, and does not count.
    for example in examples.take(values.num_images + 1).as_numpy_iterator():
        marks = [time.process_time()]
        labels = sampling.draw_set(
            model,
            example["image"][None],
            count=values.num_samples,
            seed=0,
            sampling="stratified",
            about=example["key"].decode(),
        )["labels"][0]
        marks.append(time.process_time())
        for count in COUNTS:
            choose(labels, count, label_set(model))
            marks.append(time.process_time())
        times.append(np.diff(marks))
    drawing, *choosing = 1000 * np.mean(times[1:], axis=0)
    print(f"drawing {values.num_samples} samples: {drawing:.0f} ms")
    for count, cost in zip(COUNTS, choosing):
        print(f"choosing {count} hypotheses: {cost:.0f} ms")
    return int(choosing[COUNTS.index(4)] > drawing)


if __name__ == "__main__":
    cli.start(main, ["data_dir"])
