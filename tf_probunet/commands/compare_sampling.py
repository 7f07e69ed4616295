"""Compares independent, stratified and weighted samples of one model.

    python run/compare_sampling.py --data_dir=runs/lidc --out_dir=runs/sampling

It writes a table with intervals by patient (sampling.md, sampling.json) and the figure
of the energy distance over the number of samples (sampling.png, sampling.svg). If it is
interrupted, the same command continues. docs/evaluation.md explains the samplings.
"""

from tf_probunet.commands import cli
from tf_probunet.evaluation.study_config import StudyConfig

cli.define_config_flags(StudyConfig)
REQUIRED = ["data_dir", "out_dir"]


def main() -> None:
    config = cli.config_from_flags(StudyConfig)
    from tf_probunet.evaluation import sampling_study
    from tf_probunet.figures import sampling, style

    results = sampling_study.run(config)
    print(sampling_study.markdown(results))
    for path in style.save(sampling.draw(results), config.out_dir, "sampling"):
        print(path)
