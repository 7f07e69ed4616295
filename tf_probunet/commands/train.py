"""Trains a model, or continues the run in --run_dir.

python run/train.py --flagfile=phantom.flags
python run/train.py --flagfile=lidc.flags --data_dir=... --run_dir=... --model=unet
"""

from absl import flags

from tf_probunet.commands import cli, train_flags

train_flags.define(run_dir="directory for configuration, checkpoints and logs")
flags.DEFINE_bool("resume", True, "continue the run in --run_dir")
REQUIRED = ["data_dir", "run_dir"]


def main() -> int:
    config = train_flags.config()
    from tf_probunet.training import strategy, train

    flags_ = cli.FLAGS
    outcome = train.train(
        config,
        data_dir=flags_.data_dir,
        run_dir=flags_.run_dir,
        strategy=strategy.create(flags_.strategy, flags_.cpu_devices),
        resume=flags_.resume,
    )
    if outcome.signal is not None:
        print(
            f"stopped at step {outcome.step} of {config.training.steps} and saved; the "
            f"same command continues from there"
        )
    else:
        print(f"trained {outcome.step} steps: {flags_.run_dir}")
    if outcome.best:
        print(
            f"best validation: GED {outcome.best['ged']:.4f}, loss "
            f"{outcome.best['loss']:.5g} at step {outcome.best['step']}"
        )
    return train.exit_code(outcome)
