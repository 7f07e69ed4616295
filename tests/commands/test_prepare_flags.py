"""The flags that all preparations share."""

from __future__ import annotations

import pytest
from absl import flags
from absl.testing import flagsaver

from tf_probunet.commands import cli, prepare_flags


@pytest.mark.parametrize("strict", [True, False])
def test_settings_are_those_of_the_flags(strict):
    words = ["--out_dir=out", "--num_workers=3", "--preview=4", "--overwrite"]
    with flagsaver.flagsaver():
        prepare_flags.define(num_workers=1, strict=strict)
        cli.FLAGS(["prepare", *words])
        found = prepare_flags.settings()
    expected = {"num_workers": 3, "num_preview": 4, "overwrite": True}
    assert found == {**expected, **({"strict": False} if strict else {})}


def test_a_number_below_0_is_refused():
    with flagsaver.flagsaver():
        prepare_flags.define()
        with pytest.raises(flags.IllegalFlagValueError, match="num_workers=-1"):
            cli.FLAGS(["prepare", "--num_workers=-1"])
