"""Prints parameters and multiply-adds of all models, as in docs/models.md.

python run/model_table.py
"""

from absl import flags

from tf_probunet.commands import cli
from tf_probunet.config import ModelConfig

flags.DEFINE_integer("size", 128, "height and width of the image", lower_bound=1)
flags.DEFINE_integer(
    "base_channels", ModelConfig.base_channels, "channels at the finest scale"
)
flags.DEFINE_integer("num_scales", ModelConfig.num_scales, "resolutions in the U-Net")
flags.DEFINE_integer(
    "convs_per_block", ModelConfig.convs_per_block, "3x3 convolutions per block"
)


def main() -> None:
    names = ("base_channels", "num_scales", "convs_per_block")
    config = ModelConfig(**{name: cli.FLAGS[name].value for name in names})
    size = cli.FLAGS["size"].value
    if size % config.size_divisor:
        raise ValueError(
            f"size is {size}, expected a multiple of {config.size_divisor} for "
            f"{config.num_scales} scales"
        )
    from tf_probunet.models import cost

    print(cost.markdown_table(config, size, size), end="")
