"""Trains a model; goes on with the run in --run_dir if there is one.

    python run/train.py --flagfile=phantom.flags
    python run/train.py --flagfile=lidc.flags --data_dir=... --run_dir=... --model=unet
"""

import _cli
from absl import flags

from tf_probunet import config as config_lib

flags.DEFINE_string("data_dir", None, "a prepared data set")
flags.DEFINE_string("run_dir", None, "where configuration, checkpoints and logs go")
flags.DEFINE_bool("resume", True, "go on with the run in --run_dir")
flags.DEFINE_integer(
    "cpu_devices", 1, "without a GPU: into how many replicas the CPU is split"
)
SECTIONS = {
    "model": config_lib.ModelConfig,
    "data": config_lib.DataConfig,
    "augmentation": config_lib.AugmentationConfig,
    "training": config_lib.TrainingConfig,
}
# The data set decides these.
FROM_DATA = {"num_classes": 2, "image_channels": 1, "ignore_label": None}
for _section in SECTIONS.values():
    _cli.define_config_flags(_section, skip=[*FROM_DATA])


def main() -> int:
    fixed = {"model": FROM_DATA}
    config = config_lib.Config(
        **{
            name: _cli.config_from_flags(section, **fixed.get(name, {}))
            for name, section in SECTIONS.items()
        }
    )
    from tf_probunet.training import strategy, train

    flags_ = _cli.FLAGS
    outcome = train.train(
        config,
        data_dir=flags_.data_dir,
        run_dir=flags_.run_dir,
        strategy=strategy.mirrored(flags_.cpu_devices),
        resume=flags_.resume,
    )
    if outcome.signal is not None:
        print(
            f"stopped at step {outcome.step} of {config.training.steps} and saved; the "
            f"same command goes on from there"
        )
    else:
        print(f"trained {outcome.step} steps: {flags_.run_dir}")
    if outcome.best:
        print(
            f"best validation: GED {outcome.best['ged']:.4f}, loss "
            f"{outcome.best['loss']:.5g} at step {outcome.best['step']}"
        )
    return train.exit_code(outcome)


if __name__ == "__main__":
    _cli.start(main, required=["data_dir", "run_dir"])
