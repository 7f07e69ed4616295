"""Where parts lie, and which of them are removed."""

from tf_probunet import resume


def test_other_settings_have_other_parts(tmp_path):
    first = resume.parts_dir(tmp_path, {"seed": 1, "split": "test"})
    assert first.parent == tmp_path / ".parts"
    assert first == resume.parts_dir(tmp_path, {"split": "test", "seed": 1})
    assert first != resume.parts_dir(tmp_path, {"seed": 2, "split": "test"})
    assert not first.exists()


def test_parts_are_removed(tmp_path):
    kept, other = (resume.parts_dir(tmp_path, {"seed": seed}) for seed in (1, 2))
    resume.remove_parts(tmp_path, keep=kept)  # There are none yet.
    for directory in (kept, other):
        directory.mkdir(parents=True)
        (directory / "part").touch()
    resume.remove_parts(tmp_path, keep=kept)
    assert (kept / "part").exists() and not other.exists()
    resume.remove_parts(tmp_path)
    assert not list(tmp_path.iterdir())
