"""Adds the flag files and the pretrained weights to the package; see setup.cfg.

In a checkout they lie outside of it, and `tf_probunet.artifacts.pretrained` finds them
in either place. setup.cfg cannot list packages beside those that it finds.
"""

import setuptools

setuptools.setup(
    # Keeps this file out of the flag files' package, whose directory is this one.
    script_name="setup.py",
    packages=[
        *setuptools.find_packages(include=["tf_probunet", "tf_probunet.*"]),
        "tf_probunet.flag_files",
        "tf_probunet.pretrained",
    ],
    package_dir={
        "tf_probunet.flag_files": ".",
        "tf_probunet.pretrained": "data/pretrained",
    },
)
