"""Points of lesions from flags and files, in the patient's coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import dicom_writer

from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.imaging.volume import volumes_of
from tf_probunet.predict import points
from tf_probunet.predict.read_inputs import read_inputs


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """Slices at -100, -98 and -96 mm, then a gap, then -90 and -88 mm."""
    folder = tmp_path_factory.mktemp("series")
    hounsfield = np.zeros((12, 16))
    for i, z_mm in enumerate((-100, -98, -96, -90, -88)):
        dicom_writer.write_slice(
            folder / f"{i}.dcm", hounsfield, z_mm=z_mm, uid=f"1.2.{i + 1}",
            spacing_mm=(0.5, 0.8),
        )  # fmt: skip
    return read_inputs([str(folder)], CropConfig())


def test_point_in_mm_has_the_axes_of_the_input(series):
    volumes = volumes_of(series)
    # The first pixel is at -166, -171.7 in DICOM; row 4 is 2 mm, column 5 4 mm away.
    point = points.from_mm((-162.0, -169.7, -90.2), "dicom")
    volume, place = point.find(volumes)
    assert (volume, place) == (volumes[1], (0, 4, 5))
    same = points.from_mm((162.0, 169.7, -90.2), "nifti")
    assert same.find(volumes)[1] == place
    # Counted through the whole series.
    assert points.from_center((3, 4, 5)).find(volumes) == (volume, place)


@pytest.mark.parametrize(
    "point",
    [
        points.from_center((5, 0, 0)),
        points.from_center((0, 12, 0)),
        points.from_center((0, 0, -1)),
        points.from_mm((-162, -169.7, -93), "dicom"),
    ],
)
def test_point_outside_is_refused(series, point):
    message = "outside of the volume, expected slices 0 to 2, rows 0 to 11, columns 0 "
    message += (
        r"to 15 \(x -166 to -154, y -172 to -166, z -100 to -96 mm\); or slices 3"
    )
    with pytest.raises(ValueError, match=message):
        point.find(volumes_of(series))


def test_csv(tmp_path, series):
    path = tmp_path / "points.csv"
    path.write_text("name,slice,row,col\nleft,3,4,5\n,0,1,2\n")
    first, second = points.read(str(path), series)
    assert (first.name, first.voxel) == ("left", (3, 4, 5))
    assert (second.name, second.voxel) == ("lesion_02", (0, 1, 2))
    path.write_text("x_mm,y_mm,z_mm\n-162.0,-169.7,-90.2\n")
    (point,) = points.read(str(path), series)
    assert point.find(volumes_of(series))[1] == (0, 4, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slice,row,col\n1,2,x\n", "line 2: .*expected whole numbers in the columns"),
        ("slice,row,col\n1,2,2.5\n", "line 2: "),
        ("a,b\n1,2\n", "line 2: "),
        ("slice,row,col\n", "0 lesions, expected 1 to 1000"),
        ("name,slice,row,col\n../x,1,2,3\n", "the name is '../x'"),
        ("name,slice,row,col\na,1,2,3\na,1,2,3\n", "two lesions are called 'a'"),
    ],
)
def test_bad_csv_is_refused(tmp_path, series, text, message):
    path = tmp_path / "points.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"^{path}.*{message}"):
        points.read(str(path), series)


def test_parts_of_a_label_map_are_lesions(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    labels = np.zeros((8, 9, 5), np.uint8)
    labels[1:4, 2, 3] = 1  # Its middle is (2, 2, 3).
    labels[6, 7, 1] = 1
    labels[6, 6, 1] = 2  # It touches the part before, but has another label.
    affine = np.diag([-0.5, -0.5, 2.0, 1.0])
    affine[:3, 3] = 10, 20, 30
    path = tmp_path / "labels.nii.gz"
    nibabel.save(nibabel.Nifti1Image(labels, affine), path)
    found = [point.mm for point in points.read(str(path), [])]
    expected = [affine @ (*voxel, 1) for voxel in ((2, 2, 3), (6, 7, 1), (6, 6, 1))]
    np.testing.assert_allclose(sorted(found), sorted(tuple(e[:3]) for e in expected))


def test_unknown_files_are_refused(tmp_path, series):
    with pytest.raises(FileNotFoundError, match="no such file, expected points"):
        points.read(str(tmp_path / "none.csv"), series)
    (tmp_path / "points.txt").write_text("1,2,3")
    with pytest.raises(ValueError, match="unknown kind of file, expected points"):
        points.read(str(tmp_path / "points.txt"), series)
    with pytest.raises(ValueError, match="not a DICOM segmentation"):
        points.read(series[0].source, series)
