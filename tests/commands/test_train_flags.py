"""Flag files without a command line."""

from __future__ import annotations

import pytest
from absl import flags

from tf_probunet.commands import train_flags
from tf_probunet.config import Config


def test_settings_win_over_the_file(tmp_path):
    file = tmp_path / "it.flags"
    file.write_text("# ours\n--data_dir=here\n--steps=7\n--flip\n--model=m_heads\n")
    config, paths = train_flags.read(file, {"steps": 9, "flip": False, "beta": 2.5})
    assert (config.training.steps, config.model.name) == (9, "m_heads")
    assert (config.augmentation.flip, config.model.beta) == (False, 2.5)
    assert paths == {"data_dir": "here", "run_dir": None}
    assert "steps" not in flags.FLAGS  # The command line's own are left alone.


def test_no_file_is_the_defaults():
    assert train_flags.read(None, {})[0] == Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--steps=many", "steps"),
        ("--stepz=3", "stepz"),
        ("steps 3", "'steps 3' is not"),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, message):
    (tmp_path / "it.flags").write_text(text)
    with pytest.raises(ValueError, match=message):
        train_flags.read(tmp_path / "it.flags", {})
