"""Files are the same every time, and figures do without heavy or global state."""

import subprocess
import sys

import matplotlib
import pytest

from tf_probunet.figures import style


@style.styled()
def line_figure():
    figure, (axis,) = style.panels(1, 1.0)
    axis.plot([0, 1], [0, 1])
    axis.set_title("a title")
    return figure


def test_two_runs_give_the_same_bytes(tmp_path):
    first = style.save(line_figure(), tmp_path / "a", "figure")
    second = style.save(line_figure(), tmp_path / "b", "figure")
    assert [path.name for path in first] == ["figure.png", "figure.svg"]
    for one, other in zip(first, second):
        assert one.read_bytes() == other.read_bytes()
    assert {p.name for p in (tmp_path / "a").iterdir()} == {p.name for p in first}


def test_users_settings_change_nothing(tmp_path):
    plain = style.to_png(line_figure())
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9}):
        assert style.to_png(line_figure()) == plain


def test_text_stays_text_in_svg(tmp_path):
    _, svg = style.save(line_figure(), tmp_path, "figure")
    assert ">a title</text>" in svg.read_text()
    assert "<dc:date>" not in svg.read_text()


def test_page_places_axes_in_inches_from_the_top_left():
    page = style.Page(4.0, 2.0)
    box = page.axes(1.0, 0.5, 2.0, 1.0).get_position()
    assert box.bounds == pytest.approx((0.25, 0.25, 0.5, 0.5))
    text = page.text(1.0, 0.5, "here")
    assert text.get_position() == (0.25, 0.75)


def test_panels_leave_no_empty_axes():
    figure, axes = style.panels(5, 2.0, columns=3)
    assert len(axes) == len(figure.axes) == 5
    assert figure.get_size_inches() == pytest.approx((style.PAGE_WIDTH, 4.0))


def test_figures_import_neither_tensorflow_nor_pyplot():
    code = (
        "import sys; import tf_probunet.figures.make; "
        "print([m for m in ('tensorflow', 'matplotlib.pyplot') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
