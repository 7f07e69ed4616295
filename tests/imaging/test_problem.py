"""Tests of the notes about raw data."""

from tf_probunet.imaging.problem import Problem, reasons


def test_a_problem_names_place_reason_and_detail():
    assert str(Problem("no slices", "a/b")) == "a/b: no slices"
    assert str(Problem("no slices", "a/b", "0 files")) == "a/b: no slices (0 files)"


def test_reasons_are_counted_the_most_frequent_first():
    problems = [Problem("x", "1"), Problem("y", "2", "why"), Problem("y", "3")]
    expected = "; 3 problems: 2 x y, the first 2 (why); 1 x x, the first 1"
    assert reasons(problems) == expected
    assert reasons(problems[:1]) == "; 1 problem: 1 x x, the first 1"
    assert reasons([]) == ""
