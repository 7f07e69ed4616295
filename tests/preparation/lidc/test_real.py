"""Real scans of two patients against masks that others made of the same files."""

import itertools

import numpy as np
import PIL.Image
import pytest
import scipy.ndimage
from helpers import real_data

from tf_probunet.imaging import dicom
from tf_probunet.preparation.lidc import (
    annotation_xml,
    lesions,
    outlines,
    series,
)
from tf_probunet.preparation.lidc import (
    annotations as lidc_annotations,
)
from tf_probunet.preparation.lidc import (
    prepare as lidc,
)
from tf_probunet.preparation.runner import UnitResult

pytestmark = pytest.mark.real_data

PATIENTS = ("LIDC-IDRI-0001", "LIDC-IDRI-0003")
SIZE = 128  # of the other's crops


@pytest.fixture(scope="session")
def dicom_dir(tmp_path_factory):
    target = tmp_path_factory.mktemp("dicom")
    real_data.unpack("lidc_dicom_sample.tar.xz", target)
    return target


@pytest.fixture(scope="session")
def slices_dir(tmp_path_factory):
    target = tmp_path_factory.mktemp("slices")
    last = f"LIDC-IDRI-slices/{PATIENTS[-1]}"
    real_data.unpack("lidc_slices.tar.xz", target, last=last)
    return target / "LIDC-IDRI-slices"


def included(regions, shape):
    """The alternative to our masks: pixels on an outline count as lesion."""
    mask = np.zeros(shape, bool)
    for region in regions:
        inside, boundary, window = outlines.fill(region.points, shape)
        assert region.inclusion  # there are no holes in these two scans
        mask[window] |= inside | boundary
    return mask


def offset_of(png, image, centre):
    """Where the crop lies in the slice: the best match of the grey values."""
    best = (np.inf, (0, 0))
    low = np.array(centre) - SIZE // 2
    for top, left in itertools.product(*(range(v - 8, v + 9) for v in low)):
        window = image[top : top + SIZE : 4, left : left + SIZE : 4].astype(float)
        full = image[top : top + SIZE, left : left + SIZE]
        scaled = (window - full.min()) / (full.max() - full.min()) * 255
        error = np.abs(scaled - png[::4, ::4]).mean()
        best = min(best, (error, (top, left)))
    return best


def read_pngs(folder, count):
    return np.array(
        [np.asarray(PIL.Image.open(folder / f"slice-{i}.png")) for i in range(count)]
    )


def lesion_masks(lesion, draw, indices, offset, shape):
    """[4, slices, 128, 128]: the masks of a lesion in the crop's window."""
    top, left = offset
    masks = np.zeros((4, len(indices), SIZE, SIZE), bool)
    for annotation in lesion:
        for position, index in enumerate(indices):
            mask = draw(annotation, index, shape)
            masks[annotation.grader, position] |= mask[
                top : top + SIZE, left : left + SIZE
            ]
    return masks


def compare(dicom_dir, slices_dir, draw_regions):
    """Compares all masks; returns equal pixels, pixels, intersection and union."""
    totals = np.zeros(4, int)
    for item in series.source(dicom_dir).items:
        scan = item.task.scan
        stack, _ = dicom.stack_slices(scan.headers)
        readings = annotation_xml.read_readings(dicom_dir / scan.annotation_file)
        annotations = lidc_annotations.read_annotations(
            readings, stack, "x", UnitResult()
        )
        nodules = [nodule for reading in readings for nodule in reading.nodules]
        assert len(nodules) == len(annotations)
        nodule_of = {id(a): nodule for a, nodule in zip(annotations, nodules)}

        def draw(annotation, index, shape, nodule_of=nodule_of, stack=stack):
            regions = [
                region
                for region in nodule_of[id(annotation)].regions
                if stack.position_by_uid[region.sop_uid] == index
            ]
            return draw_regions(regions, shape)

        for number, lesion in enumerate(lesions.group(annotations)):
            folder = slices_dir / scan.patient / f"nodule-{number}"
            indices = sorted({i for a in lesion for i in a.pixels})
            images = read_pngs(folder / "images", len(indices))
            assert len(list((folder / "images").iterdir())) == len(indices)
            box = np.array([a.bounds() for a in lesion])
            centre = (box[:, 1:, 0].min(axis=0) + box[:, 1:, 1].max(axis=0)) // 2
            middle = len(indices) // 2
            header = stack.slices[indices[middle]]
            image, _ = dicom.read_pixels(dicom_dir / header.path, header.path)
            error, offset = offset_of(images[middle], image, centre)
            assert error < 0.5  # half a grey value: the same pixels, rounded
            ours = lesion_masks(lesion, draw, indices, offset, header.shape)
            theirs = np.array(
                [read_pngs(folder / f"mask-{k}", len(indices)) > 0 for k in range(4)]
            )
            # mask-k is not reading k: take the order that fits best.
            ours = max(
                (ours[list(order)] for order in itertools.permutations(range(4))),
                key=lambda masks: (masks == theirs).sum(),
            )
            totals += [
                (ours == theirs).sum(),
                ours.size,
                (ours & theirs).sum(),
                (ours | theirs).sum(),
            ]
    return totals


def test_our_masks_equal_the_published_ones_pixel_by_pixel(dicom_dir, slices_dir):
    equal, pixels, intersection, union = compare(
        dicom_dir, slices_dir, outlines.slice_mask
    )
    # 5 lesions, 39 images, 156 masks: the share of equal pixels is 1, IoU is 1.
    assert pixels == 39 * 4 * 128 * 128
    assert equal == pixels
    assert intersection == union == 41438


def test_masks_with_the_outline_do_not(dicom_dir, slices_dir):
    equal, pixels, intersection, union = compare(dicom_dir, slices_dir, included)
    assert equal / pixels == pytest.approx(0.99699, abs=1e-5)
    assert intersection / union == pytest.approx(0.8434, abs=1e-4)


def test_sample_is_prepared(dicom_dir, tmp_path):
    report = lidc.prepare(dicom_dir, tmp_path, num_workers=1)
    counts = report["counts"]
    assert counts["scans"] == 2 and counts["lesions"] == 5
    assert counts["X-ray annotation files, ignored"] == 2
    assert counts["lesions given as a single point (under 3 mm), dropped"] == 9
    assert counts["non-nodules, dropped"] == 51
    marks = [counts.get(f"images marked by {k} of 4 graders", 0) for k in (1, 2, 3, 4)]
    assert marks == [15, 0, 3, 21]
    # The sample holds the slices near the lesions only.
    faults = set(report["problems"]) - {
        "lesions given as a single point (under 3 mm)",
        "non-nodules",
    }
    assert faults == {"slices missing"}


def test_headers_are_within_the_first_bytes(dicom_dir):
    paths = sorted(dicom_dir.rglob("*.dcm"))
    for path in paths:
        found = dicom._plain_header(path.read_bytes()[:4096], "x")
        assert found is not None and found == dicom._any_header(path, "x")
    assert len(paths) == 101


def test_outlines_count_pixels_from_zero(dicom_dir):
    # Lesions are brighter than the lung around them: most so without a shift.
    contrast = np.zeros((3, 3))
    for item in series.source(dicom_dir).items:
        scan = item.task.scan
        stack, _ = dicom.stack_slices(scan.headers)
        readings = annotation_xml.read_readings(dicom_dir / scan.annotation_file)
        for annotation in lidc_annotations.read_annotations(
            readings, stack, "x", UnitResult()
        ):
            for index in annotation.pixels:
                path = stack.slices[index].path
                image, _ = dicom.read_pixels(dicom_dir / path, path)
                mask = lesions.grader_masks([annotation], index, image.shape)
                mask = mask.any(axis=0)
                ring = scipy.ndimage.binary_dilation(mask, iterations=2) & ~mask
                for down, right in np.ndindex(3, 3):
                    moved = np.roll(image, (1 - down, 1 - right), axis=(0, 1))
                    contrast[down, right] += moved[mask].mean() - moved[ring].mean()
    assert np.unravel_index(contrast.argmax(), contrast.shape) == (1, 1)
