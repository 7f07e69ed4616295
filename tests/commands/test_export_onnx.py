"""run/export_onnx.py as a process: what it prints, and one line for an error."""

import pytest
from helpers import processes, run_dirs

from tf_probunet.export import export

pytestmark = pytest.mark.slow


def test_it_says_how_far_onnx_runtime_is_from_the_model(tmp_path, phantom_dir):
    pytest.importorskip("tf2onnx", reason="the extra `onnx` is not installed")
    run_dirs.make_run(tmp_path / "run", phantom_dir)
    export.export_run(tmp_path / "run", tmp_path / "saved")
    file = tmp_path / "model.onnx"
    stdout = processes.run(
        "export_onnx.py", f"--saved_model={tmp_path / 'saved'}", f"--out_file={file}"
    )
    last = stdout.splitlines()[-1]
    assert last.startswith(f"ONNX: {file}, 0.0")
    assert "ONNX Runtime differs from the model by " in last


def test_a_run_or_a_saved_model_is_required(tmp_path):
    process = processes.start("export_onnx.py", f"--out_file={tmp_path / 'm.onnx'}")
    _, stderr = process.communicate()
    assert process.returncode == 1
    assert stderr == "error: expected either --run_dir or --saved_model\n"
