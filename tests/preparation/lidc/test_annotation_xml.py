import pytest
from helpers.dicom_writer import ct_message, nodule, non_nodule, region, xray_message

from tf_probunet.preparation.lidc import annotation_xml

TRIANGLE = [(5, 5), (9, 5), (5, 9)]


def write(tmp_path, text, name="069.xml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_reads_regions_of_each_radiologist(tmp_path):
    text = ct_message(
        [
            [nodule("Nodule 001", region("1.2.3", "-125.000000", TRIANGLE))],
            [],
            [nodule("IL057_1", region("1.2.4", "12.5", TRIANGLE, inclusion="FALSE"))],
            [],
        ]
    )
    readings = annotation_xml.read_readings(write(tmp_path, text))
    assert [len(reading.nodules) for reading in readings] == [1, 0, 1, 0]
    (first,), (third,) = readings[0].nodules, readings[2].nodules
    assert first == annotation_xml.Nodule(
        "Nodule 001",
        (annotation_xml.Region("1.2.3", -125.0, True, tuple(TRIANGLE)),),
    )
    assert third.regions[0].inclusion is False
    assert third.regions[0].z_mm == 12.5


def test_drops_single_points_and_non_nodules(tmp_path):
    point = region("1.2.3", "1", [(4, 4)])
    repeated_point = region("1.2.3", "1", [(4, 4), (4, 4)])
    outline = region("1.2.4", "2", TRIANGLE)
    reading = [
        nodule("small", point),
        nodule("also small", point, repeated_point),
        nodule("large", point, outline, outline),
        non_nodule("1.2.3", 1),
        non_nodule("1.2.3", 2),
    ]
    (result,) = annotation_xml.read_readings(write(tmp_path, ct_message([reading])))
    assert [(n.name, len(n.regions)) for n in result.nodules] == [("large", 2)]
    assert result.small_nodules == 2
    assert result.non_nodules == 2
    assert result.single_point_regions == ("large",)


def test_outline_of_two_points_is_an_outline(tmp_path):
    # Not a single point; it encloses nothing, which is found out later.
    text = ct_message([[nodule("x", region("1", "1", [(4, 4), (5, 4)]))]])
    (reading,) = annotation_xml.read_readings(write(tmp_path, text))
    assert len(reading.nodules) == 1


def test_missing_values_have_defaults(tmp_path):
    text = ct_message([[nodule("x", region("1.2", "7", TRIANGLE))]])
    text = text.replace("<imageZposition>7 </imageZposition>", "")
    text = text.replace("<inclusion>TRUE</inclusion>", "")
    text = text.replace("<imageSOP_UID>1.2</imageSOP_UID>", "<imageSOP_UID/>")
    (reading,) = annotation_xml.read_readings(write(tmp_path, text))
    (found,) = reading.nodules[0].regions
    assert (found.sop_uid, found.z_mm, found.inclusion) == ("", None, True)


def test_header_of_ct_and_xray(tmp_path):
    ct = write(tmp_path, ct_message([], series_uid="1.5", study_uid="1.6"))
    assert annotation_xml.read_header(ct) == annotation_xml.MessageHeader(
        "LidcReadMessage", "1.5", "1.6"
    )
    header = annotation_xml.read_header(write(tmp_path, xray_message("1.5")))
    assert (header.kind, header.series_uid) == ("IdriReadMessage", "1.5.9")


def test_header_may_be_missing(tmp_path):
    path = write(tmp_path, "<other/>")
    assert annotation_xml.read_header(path) == annotation_xml.MessageHeader(
        "other", "", ""
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<yCoord>9<", "<yCoord>9.5<", "nodule 'x' has yCoord '9.5', expected a whole"),
        ("<imageZposition>7 <", "<imageZposition>up<", "imageZposition 'up', expected"),
        (">TRUE<", ">MAYBE<", "inclusion 'MAYBE', expected TRUE or FALSE"),
        ("edgeMap", "edge", "nodule 'x' has a region without edgeMap points"),
        ("LidcReadMessage", "Other", "root element LidcReadMessage, got Other"),
        ("</readingSession>", "", "not well-formed XML"),
        ('"UTF-8"', '"no-such-code"', "not well-formed XML"),
    ],
)
def test_refuses_and_names_the_file(tmp_path, old, new, message):
    text = ct_message([[nodule("x", region("1.2", "7", TRIANGLE))]])
    assert old in text
    path = write(tmp_path, text.replace(old, new))
    with pytest.raises(ValueError, match="069.xml: ") as error:
        annotation_xml.read_readings(path)
    assert message in str(error.value)


BILLION_LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>'
)
EXTERNAL = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]>'


@pytest.mark.parametrize("doctype", [BILLION_LAUGHS, EXTERNAL, "<!DOCTYPE x>"])
@pytest.mark.parametrize(
    "read", [annotation_xml.read_header, annotation_xml.read_readings]
)
def test_refuses_entities(tmp_path, doctype, read):
    text = ct_message([[nodule("&a;", region("1.2", "7", TRIANGLE))]])
    declaration, _, rest = text.partition("\n")
    path = write(tmp_path, f"{declaration}{doctype}{rest}")
    with pytest.raises(ValueError, match="069.xml: refused, expected plain XML"):
        read(path)
