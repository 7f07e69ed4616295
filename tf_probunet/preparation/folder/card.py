"""The data card: what a prepared data set is, for people who did not prepare it."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from tf_probunet import files
from tf_probunet.dataset import records

NAME = "README.md"

_MARK = "## To fill in"
_TO_FILL_IN = (
    ("Source", "who made the images, where they come from, how to cite them"),
    ("Licence", "what others may do with images and masks"),
    ("Graders", "who drew the masks, with which training and instructions"),
    ("Consent", "whether people can be recognised, and what they agreed to"),
)


def write(out_dir: files.Path, said: Sequence[str], *, has_preview: bool) -> None:
    """Writes the card of a data set next to its records.

    What people have filled in is kept.

    Args:
        out_dir: the prepared data set.
        said: what the preparation recognised.
        has_preview: whether there is a contact sheet.
    """
    path = pathlib.Path(out_dir) / NAME
    new = text(records.read_info(out_dir), said, has_preview)
    if path.is_file():
        filled_in = path.read_text(encoding="utf-8", errors="replace")
        filled_in = filled_in.partition(_MARK)[2]
        if filled_in:
            new = new.partition(_MARK)[0] + _MARK + filled_in
    files.write_text(path, new)


def text(info: records.DatasetInfo, said: Sequence[str], has_preview: bool) -> str:
    """Returns the card in Markdown."""
    spec = info.spec
    most, least = spec.image_shape[:2], spec.smallest_size
    size = "{}×{}".format(*most)
    if most != least:
        size = "{}×{} to ".format(*least) + size
    graders = str(spec.num_graders)
    if spec.fewest_graders != spec.num_graders:
        graders = f"{spec.fewest_graders} to {graders}"
    lines = [f"# {spec.name}", "", "| | |", "|---|---|"]
    rows = [
        ("images", ", ".join(f"{s} {info.count(s)}" for s in info.splits)),
        ("size in pixels", f"{size}, {spec.image_shape[2]} channels"),
        ("graders per image", graders),
        ("classes", ", ".join(spec.class_names)),
        ("fingerprint", f"`{info.fingerprint}`"),
    ]
    lines += [f"| {name} | {value} |" for name, value in rows]
    lines += ["", "## How it was prepared", ""]
    lines += [f"- {line}" for line in said]
    lines += ["", "`report.txt` lists everything that was left out."]
    if has_preview:
        lines += ["", "![some images with their masks](preview.png)"]
    lines += ["", _MARK, ""]
    lines += [f"- **{name}**: {hint}" for name, hint in _TO_FILL_IN]
    return "\n".join(lines) + "\n"
