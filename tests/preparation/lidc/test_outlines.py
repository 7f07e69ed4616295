import numpy as np
import pytest
import scipy.spatial
from helpers.dicom_writer import square
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_probunet.preparation.lidc.annotation_xml import Region
from tf_probunet.preparation.lidc.outlines import fill, slice_mask

SHAPE = (12, 14)


def region(points, inclusion=True):
    return Region("1.2", 0.0, inclusion, tuple(points))


def draw(*regions):
    return slice_mask(regions, SHAPE)


def picture(text):
    """Reads a mask from lines of dots and hashes."""
    return np.array([[c == "#" for c in line.strip()] for line in text.split()])


def test_square_outline_encloses_the_pixels_within():
    expected = np.zeros(SHAPE, bool)
    expected[3:7, 5:9] = True
    np.testing.assert_array_equal(draw(region(square(3, 5, 4))), expected)


def test_hand_drawn_polygon():
    outline = [(2, 0), (5, 6), (2, 6), (0, 6), (0, 3)]  # column, row
    # Row r lies between the left edge at 2 - 2r/3 (0 from row 3 on) and the right one
    # at 2 + r/2, which passes through the centres of (3, 2) and (4, 4).
    expected = picture(
        """
        ......
        ..#...
        .##...
        .###..
        .###..
        .####.
        ......
        """
    )
    found = draw(region(outline))
    np.testing.assert_array_equal(found[:7, :6], expected)
    assert not found[7:].any() and not found[:, 6:].any()


def test_single_pixel():
    # Eight neighbours around one pixel: the smallest outline with something inside.
    ring = [(4, 4), (5, 4), (6, 4), (6, 5), (6, 6), (5, 6), (4, 6), (4, 5)]
    assert np.argwhere(draw(region(ring))).tolist() == [[5, 5]]
    # The diagonal one does too.
    diamond = [(5, 4), (6, 5), (5, 6), (4, 5)]
    assert np.argwhere(draw(region(diamond))).tolist() == [[5, 5]]


@pytest.mark.parametrize(
    "points",
    [
        [(4, 4), (5, 4)],
        [(4, 4), (5, 4), (4, 5)],
        [(4, 4), (5, 4), (5, 5), (4, 5)],
        [(4, 4), (9, 4), (4, 4)],
    ],
)
def test_outline_without_inside_gives_nothing(points):
    assert not draw(region(points)).any()


def test_closed_unclosed_repeated_and_reversed_outlines_are_alike():
    outline = square(2, 3, 5)
    expected = draw(region(outline))
    closed = outline + outline[:1]
    doubled_points = [point for point in outline for _ in range(2)]
    drawn_twice = closed + closed
    started_elsewhere = outline[2:] + outline[:2]
    for variant in (
        closed,
        doubled_points,
        drawn_twice,
        started_elsewhere,
        outline[::-1],
    ):
        np.testing.assert_array_equal(draw(region(variant)), expected)


def test_spur_adds_nothing():
    outline = square(2, 3, 5)
    spur = [outline[0], (2, 0), outline[0]]  # away from the lesion and back
    np.testing.assert_array_equal(
        draw(region(spur + outline[1:])), draw(region(outline))
    )


def test_hole_removes_its_inside_and_its_outline():
    # Area rows and columns 1..8; the hole's outline is the ring of 3..6.
    area, hole = region(square(1, 1, 8)), region(square(4, 4, 2), inclusion=False)
    expected = np.zeros(SHAPE, bool)
    expected[1:9, 1:9] = True
    expected[3:7, 3:7] = False
    np.testing.assert_array_equal(draw(area, hole), expected)
    np.testing.assert_array_equal(draw(hole, area), expected)


def test_two_areas_are_joined():
    first, second = region(square(1, 1, 3)), region(square(6, 6, 3))
    expected = draw(first) | draw(second)
    np.testing.assert_array_equal(draw(first, second), expected)
    assert expected.sum() == 18


def test_outline_of_one_area_inside_another_stays():
    # An area drawn within an area is no hole.
    large, small = region(square(1, 1, 8)), region(square(3, 3, 2))
    np.testing.assert_array_equal(draw(large, small), draw(large))


def test_no_region_no_pixel():
    assert draw().shape == SHAPE and not draw().any()


@pytest.mark.parametrize("point", [(-1, 3), (14, 3), (3, -1), (3, 12)])
def test_outline_must_lie_on_the_slice(point):
    with pytest.raises(ValueError, match="14 columns x 12 rows"):
        draw(region([(3, 3), (5, 5), point]))


def test_outline_along_the_border_is_allowed():
    outline = [(0, 0), (13, 0), (13, 11), (0, 11)]
    assert draw(region(outline)).sum() == 12 * 10


def shoelace(points):
    x, y = np.array(points).T
    return abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 30)),
        min_size=3,
        max_size=12,
        unique=True,
    )
)
def test_picks_theorem_and_half_planes_for_convex_outlines(points):
    points = np.array(points)
    if np.linalg.matrix_rank(points - points[0]) < 2:
        return  # on one line: no polygon
    hull = points[scipy.spatial.ConvexHull(points).vertices]  # counter-clockwise
    inside, boundary, window = fill([tuple(p) for p in hull.tolist()], (31, 31))
    # Pick: area = inside + boundary / 2 - 1.
    assert shoelace(hull) == inside.sum() + boundary.sum() / 2 - 1
    rows, columns = np.mgrid[window]
    left = np.ones(rows.shape, bool)
    for (x0, y0), (x1, y1) in zip(hull, np.roll(hull, -1, axis=0)):
        left &= (x1 - x0) * (rows - y0) - (y1 - y0) * (columns - x0) > 0
    np.testing.assert_array_equal(inside, left)


@settings(max_examples=60)
@given(st.lists(st.integers(3, 20), min_size=5, max_size=16), st.randoms())
def test_picks_theorem_for_star_shaped_outlines(radii, random):
    turn = random.random()
    angles = (np.arange(len(radii)) + turn) * 2 * np.pi / len(radii)
    steps = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    points = np.rint(25 + steps * np.array(radii)[:, None]).astype(int)
    # Rounding may bend a corner back; keep the outlines that go round the centre.
    (x, y), (next_x, next_y) = (points - 25).T, (np.roll(points, -1, axis=0) - 25).T
    cross = x * next_y - y * next_x
    if (cross <= 0).any():
        return
    inside, boundary, _ = fill([tuple(p) for p in points.tolist()], (51, 51))
    assert shoelace(points) == inside.sum() + boundary.sum() / 2 - 1
