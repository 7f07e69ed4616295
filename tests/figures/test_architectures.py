"""The pictures of the architectures: complete, reproducible, and those in the docs."""

import pathlib
import re
import xml.etree.ElementTree

import pytest

from tf_probunet.figures import architectures, style
from tf_probunet.models import registry

IMAGES = pathlib.Path(__file__).parents[2] / "docs" / "images"
DOCS = IMAGES.parent / "models.md"


def _texts(svg: bytes) -> list[str]:
    root = xml.etree.ElementTree.fromstring(svg)
    return [
        "".join(node.itertext()).strip() for node in root.iter() if "text" in node.tag
    ]


def _colours(svg: bytes) -> list[str]:
    """The colours of all filled shapes, in the order in which they are drawn."""
    return re.findall(r"fill: (#[0-9a-f]{6})", svg.decode().lower())


def test_every_model_has_a_picture_that_the_docs_show():
    named = {*registry.MODELS, registry.ENSEMBLE, "ablations", "mixture_prior"}
    assert named == set(architectures.PICTURES)
    shown = re.findall(r"\]\(images/(\w+)\.svg\)", DOCS.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(architectures.PICTURES)


@pytest.mark.parametrize("name", architectures.PICTURES)
def test_picture_is_the_one_in_the_docs(name):
    drawn = architectures.render(name)
    assert drawn == architectures.render(name)
    # Coordinates, ids and the lines of a formula depend on Matplotlib's version.
    stored = (IMAGES / f"{name}.svg").read_bytes()
    assert _colours(drawn) == _colours(stored) != []
    words = [["".join(text.split()) for text in _texts(svg)] for svg in (drawn, stored)]
    assert words[0] == words[1]


@pytest.mark.parametrize(
    "name, blue, red, green, prior, posterior",
    [
        ("unet", 5, 0, 0, 0, 0),
        ("unet_ensemble", 15, 0, 0, 0, 0),
        ("dropout_unet", 2, 3, 0, 0, 0),
        ("m_heads", 5, 0, 0, 0, 0),
        # Latents: three numbers of z, and the plane where they enter.
        ("image2image_vae", 5, 0, 4, 0, 3),
        ("prob_unet", 10, 0, 8, 6, 3),
        ("ablations", 15, 0, 12, 0, 9),
        ("mixture_prior", 5, 0, 4, 3, 0),
        ("ssn", 5, 0, 3, 0, 0),
        ("mixture", 5, 0, 3, 0, 0),
        ("hpu_net", 5, 0, 2, 0, 3),
    ],
)
def test_pictures_hold_the_parts_of_their_model(
    name, blue, red, green, prior, posterior
):
    svg = architectures.render(name)
    colours = (style.BLUE, style.VERMILION, style.GREEN, style.ORANGE, style.PURPLE)
    expected = (blue, red, green, prior, posterior)
    drawn = _colours(svg)
    assert tuple(drawn.count(colour.lower()) for colour in colours) == expected


def test_all_pictures_are_written(tmp_path):
    paths = architectures.save_all(tmp_path / "new")
    assert [path.stem for path in paths] == list(architectures.PICTURES)
    assert all(path.read_bytes() == architectures.render(path.stem) for path in paths)
