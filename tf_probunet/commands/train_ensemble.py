"""Trains the members of a U-Net Ensemble: U-Nets with different seeds.

    python run/train_ensemble.py --flagfile=phantom.flags --run_dir=runs/unet
    python run/export.py --members='runs/unet_*' --out_dir=runs/ensemble

Members are trained one after another. Ctrl-C saves the current member, and the same
command continues.
"""

from absl import flags

from tf_probunet.commands import cli, train_flags

FIXED = {"name": "unet"}
train_flags.define(
    run_dir="start of the members' directories: runs/unet gives runs/unet_00 and so on",
    **FIXED,
)
flags.DEFINE_integer("num_members", 16, "number of members", lower_bound=1)
REQUIRED = ["data_dir", "run_dir"]


def main() -> int:
    config = train_flags.config(**FIXED)
    from tf_probunet.training import ensemble, strategy, train

    flags_ = cli.FLAGS
    outcomes = ensemble.train_members(
        config,
        data_dir=flags_.data_dir,
        run_dir=flags_.run_dir,
        num_members=flags_.num_members,
        strategy=strategy.create(flags_.strategy, flags_.cpu_devices),
        report=lambda line: print(line, flush=True),
    )
    last = outcomes[-1]
    if last.signal is not None:
        print(
            f"stopped in member {len(outcomes)} of {flags_.num_members} at step "
            f"{last.step} of {config.training.steps} and saved; the same command "
            f"continues from there"
        )
        return train.exit_code(last)
    print(f"trained {len(outcomes)} members: {flags_.run_dir}_00 and so on")
    for index, outcome in enumerate(outcomes):
        if outcome.best:
            print(f"member {index:02d}: best validation GED {outcome.best['ged']:.4f}")
    return 0
