"""run/export_tflite.py as a process, with a SavedModel."""

import pytest
from helpers import processes, run_dirs

from tf_probunet.export import export


@pytest.mark.slow
def test_a_saved_model_becomes_a_file(tmp_path, phantom_dir):
    run_dirs.make_run(tmp_path / "run", phantom_dir)
    export.export_run(tmp_path / "run", tmp_path / "saved")
    file = tmp_path / "model.tflite"
    stdout = processes.run(
        "export_tflite.py", f"--saved_model={tmp_path / 'saved'}", f"--out_file={file}"
    )
    size = file.stat().st_size / 2**20
    assert stdout.splitlines()[-1] == f"TensorFlow Lite: {file}, {size:.2f} MiB"
