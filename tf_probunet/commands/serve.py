"""Serves a SavedModel over HTTP: images in, weighted hypotheses out.

    python run/serve.py
    curl --data-binary @slice.png 'http://127.0.0.1:8080/predict?hypotheses=3'

Without --saved_model it is the model that comes with the repository. Only programs on
this computer can connect, unless --host says otherwise. Needs pip install
'tf_probunet[serve]'. See docs/serving.md.
"""

from absl import flags

from tf_probunet.artifacts import pretrained
from tf_probunet.commands import cli
from tf_probunet.serve.config import ServeConfig

flags.DEFINE_string(
    "saved_model",
    None,
    f"a SavedModel of run/export.py; by default the pretrained {pretrained.DEFAULT}",
)
cli.define_config_flags(ServeConfig)


def main() -> None:
    config = cli.config_from_flags(ServeConfig)
    path = cli.FLAGS.saved_model or pretrained.model_path()
    try:
        from tf_probunet.serve import app
    except ImportError as error:
        raise ValueError(
            f"to serve, pip install 'tf_probunet[serve]' ({error})"
        ) from error
    from tf_probunet.artifacts import saved_model

    app.serve(saved_model.load(path), config)
