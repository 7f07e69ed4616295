"""Turns LIDC-IDRI into records: lesion-centred images with four masks each.

    python run/prepare_lidc.py --dicom_dir=LIDC-IDRI --out_dir=runs/lidc
    python run/prepare_lidc.py --format=png_slices --input_dir=... --out_dir=runs/lidc

See docs/data.md for the four formats and the recipe.
"""

from absl import flags

from tf_probunet.commands import cli, prepare_flags
from tf_probunet.preparation.lidc.known_splits import KNOWN_SPLITS

flags.DEFINE_string("dicom_dir", None, "the original download; any folder layout")
flags.DEFINE_string("input_dir", None, "input of another --format; a file for pickle")
flags.DEFINE_string(
    "xml_dir", None, "directory of the annotation files, if not in --dicom_dir"
)
flags.DEFINE_enum(
    "format", "dicom", ["dicom", "png_slices", "crops", "pickle"], "format of the input"
)
flags.DEFINE_string("split_file", None, "JSON file with the patients of each split")
flags.DEFINE_enum(
    "known_split",
    None,
    list(KNOWN_SPLITS),
    "with --format=pickle: the split of this public code; see docs/data.md",
)
flags.DEFINE_bool(
    "keep_slice_location_mismatch",
    False,
    "keep slices whose SliceLocation differs from their position; the paper drops them",
)
prepare_flags.define()
REQUIRED = prepare_flags.REQUIRED


def main() -> None:
    values = cli.FLAGS
    if (values.dicom_dir is None) == (values.input_dir is None):
        raise ValueError("expected either --dicom_dir or --input_dir; see --help")
    if values.dicom_dir is not None and values.format != "dicom":
        raise ValueError(f"--format={values.format} goes with --input_dir")
    from tf_probunet.preparation import runner
    from tf_probunet.preparation.lidc import prepare as lidc

    report = lidc.prepare(
        values.dicom_dir or values.input_dir,
        values.out_dir,
        source_format=values.format,
        split_file=values.split_file,
        known_split=values.known_split,
        **prepare_flags.settings(),
        xml_dir=values.xml_dir,
        keep_slice_location_mismatch=values.keep_slice_location_mismatch,
    )
    print(runner.report_summary(report), end="")
    known = KNOWN_SPLITS.get(values.known_split)
    for label in ("note", "warning"):
        text = getattr(known, label, None)
        if text:
            print(f"{label}: {text}")
