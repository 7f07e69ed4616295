"""Formats results as tables: for the terminal, in Markdown and in CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from tf_probunet.artifacts.results_dir import lookup
from tf_probunet.evaluation.lesions import WAYS
from tf_probunet.evaluation.summary import CLASS_METRICS, METRICS, SCALARS, Metric

_BASELINE_TITLES = {
    "always_empty": "always empty",
    "majority": "majority of graders",
    "graders": "graders themselves",
    "never_flipped": "true labels, never flipped",
    "no_switchable_class": "no switchable class",
}


# Columns of the table of classes that are not means with intervals.
_CLASS_COLUMNS = {
    "ECE": "calibration.marked_pixels.ece",
    "seen by samples": "presence.samples",
    "by graders": "presence.graders",
    "area, samples": "area.samples",
    "graders": "area.graders",
}


def text_table(results: dict[str, Any]) -> str:
    """Returns aligned columns for the terminal."""
    blocks = [_heading(results)]
    blocks += [aligned(rows) for rows in _tables(results)]
    blocks += [f"note: {note}" for note in results.get("notes", [])]
    return "\n\n".join(blocks) + "\n"


def markdown_table(results: dict[str, Any]) -> str:
    """Returns the tables as Markdown, with the command that made the results."""
    blocks = [f"# {results['model']['name']} on {results['data']['name']}"]
    blocks.append("\n".join(f"- {line}" for line in _heading(results).splitlines()))
    blocks += [markdown(rows) for rows in _tables(results)]
    blocks += [f"Note: {note}." for note in results.get("notes", [])]
    blocks.append(f"```\n{results['command']}\n```")
    return "\n\n".join(blocks) + "\n"


def csv_table(results: dict[str, Any]) -> str:
    """Returns one row per number: metric, num_samples, mean, low, high."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["metric", "num_samples", "mean", "low", "high"])
    for name, by_count in _distances(results):
        for count, value in by_count.items():
            writer.writerow([name, count, *_numbers(value)])
    largest = max(map(int, results["ged"]))
    for metric in METRICS:
        if metric.name in results:
            taken = sample_count(metric, results)
            writer.writerow([metric.name, taken, *_numbers(results[metric.name])])
    for metric in SCALARS:
        value = lookup(results, metric.name)
        if value is not None:
            writer.writerow([metric.name, largest, value, None, None])
    for name, value in _switch_values(results):
        writer.writerow([name, largest, value, None, None])
    for name, values in results.get("by_class", {}).items():
        for key in CLASS_METRICS:
            if key in values:
                row = [f"by_class.{name}.{key}", largest]
                writer.writerow([*row, *_numbers(values[key])])
        for path in _CLASS_COLUMNS.values():
            value = lookup(values, path)
            if value is not None:
                writer.writerow([f"by_class.{name}.{path}", largest, value, None, None])
    return buffer.getvalue()


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Aligns rows of cells: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths))
        lines.append("  ".join([row[0].ljust(widths[0]), *rest]).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows of cells as a Markdown table; the first row is the header."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|---" + "|---:" * (len(rows[0]) - 1) + "|")
    return "\n".join(lines)


def number(value: float | None) -> str:
    """Formats a number with three decimals, or five if it is small; "-" for None."""
    if value is None:
        return "-"
    places = 5 if 1e-5 <= abs(value) < 0.01 else 3
    # Adding 0 turns the -0.0 that small negative numbers round to into 0.0.
    return f"{round(value, places) + 0.0:.{places}f}"


def with_bounds(value: dict[str, Any] | None) -> str:
    """Formats an interval as "mean [low, high]"; "-" for None."""
    if value is None or value["mean"] is None:
        return "-"
    if value["low"] is None:
        return number(value["mean"])
    return f"{number(value['mean'])} {bounds(value)}"


def bounds(value: dict[str, Any]) -> str:
    """Formats the bounds of an interval as "[low, high]"."""
    return f"[{number(value['low'])}, {number(value['high'])}]"


def floor_title(results: dict[str, Any]) -> str:
    """Returns what the floor holds for."""
    if (lookup(results, "protocol.sampling") or "independent") == "independent":
        return "a perfect model, independent samples"
    return "a perfect model, chosen samples"


def _heading(results: dict[str, Any]) -> str:
    data, protocol = results["data"], results["protocol"]
    size = _range(
        "x".join(map(str, protocol.get(name, ())))
        for name in ("smallest_image_size", "image_size")
    )
    graders = _range(str(data.get(name, "")) for name in ("fewest_graders", "graders"))
    lesions = f"{data['lesions']} lesions, " if "lesions" in data else ""
    lines = [
        f"{results['model']['name']} ({results['model']['path']})",
        f"{data['name']}, {data['split']}: {lesions}{data['images']} images of "
        f"{size}, groups: {data['groups']}, graders: {graders}",
        f"{protocol['statistic'].upper()}-statistic, both empty: "
        f"{protocol['both_empty']}; [95% intervals by {_resampled(results)}]",
    ]
    known = data.get("known_split") or {}
    if known:
        lines.append(f"split of {known['source']}: {known['rule']}")
    for label in ("note", "warning"):
        if known.get(label):
            lines.append(f"{label.upper()}: {known[label]}")
    if protocol.get("name"):
        lines.insert(2, f"protocol {protocol['name']}: {protocol['source']}")
    if protocol.get("matching"):
        lines.append(f"matching: {protocol['matching']}")
    sampling = protocol.get("sampling", "independent")
    if sampling != "independent":
        lines.append(
            f"{sampling} samples: not the published protocol, which draws them "
            "independently"
        )
    return "\n".join(lines)


def _range(bounds: Iterable[str]) -> str:
    """Returns "smallest to largest", or the largest alone if there is no smallest."""
    return " to ".join(filter(None, bounds))


def _resampled(results: dict[str, Any]) -> str:
    """Returns what the intervals resample: "group" or "image"."""
    units = lookup(results, "protocol.intervals.resampled") or "groups"
    return units.removesuffix("s")


def _tables(results: dict[str, Any]) -> list[list[list[str]]]:
    tables = [_distance_table(results), _metric_table(results)]
    if lookup(results, "pixel_calibration.classes"):
        tables.append(_switch_table(results))
    if "by_class" in results:
        tables.append(_class_table(results))
    if "by_presence" in results:
        tables.append(_presence_table(results))
    if len(results.get("ways", {})) > 1:
        tables += [_ways_table(results, d) for d in (False, True)]
    return [rows for rows in tables if len(rows) > 1]


def _distance_table(results: dict[str, Any]) -> list[list[str]]:
    counts = list(results["ged"])
    rows = [["energy distance, samples:", *counts]]
    titles = {
        "ged": results["model"]["name"],
        "floor": f"floor ({floor_title(results)})",
        "excess": "excess over the floor",
        "exact_modes.ged": "against the exact modes",
        "exact_modes.floor": "floor of that",
        "exact_modes.excess": "excess of that",
        **{f"baselines.{k}.ged": title for k, title in _BASELINE_TITLES.items()},
    }
    for name, by_count in _distances(results):
        rows.append([titles[name], *(with_bounds(by_count[n]) for n in counts)])
    return rows


def _metric_table(results: dict[str, Any]) -> list[list[str]]:
    largest = max(map(int, results["ged"]))
    rows = [[f"with {largest} samples", "value"]]
    for metric in METRICS:
        if metric.name in results:
            count = sample_count(metric, results)
            title = metric.title + (f", {count} samples" if count != largest else "")
            rows.append([title, with_bounds(results[metric.name])])
    for metric in SCALARS:
        value = lookup(results, metric.name)
        if value is not None:
            text = str(value) if isinstance(value, int) else number(value)
            rows.append([metric.title, text])
        elif metric.null and lookup(results, metric.name.rpartition(".")[0]):
            rows.append([metric.title, metric.null])
    return rows


def _class_table(results: dict[str, Any]) -> list[list[str]]:
    """Returns a row for each class but the background, and one for their mean."""
    shown = [
        (title, lambda values, name=name: lookup(values, f"{name}.mean"))
        for name, title in CLASS_METRICS.items()
    ]
    shown += [
        (title, lambda values, path=path: lookup(values, path))
        for title, path in _CLASS_COLUMNS.items()
    ]
    rows = [["class", *(title for title, _ in shown)]]
    columns = []
    for _, read in shown:
        columns.append([read(values) for values in results["by_class"].values()])
    for name, *cells in zip(results["by_class"], *columns):
        rows.append([name, *map(number, cells)])
    means = []
    for column in columns:
        known = [value for value in column if value is not None]
        means.append(sum(known) / len(known) if known else None)
    rows.append(["mean of the classes", *map(number, means)])
    return rows


def sample_count(metric: Metric, results: dict[str, Any]) -> int:
    """Returns how many samples a metric takes: all, but a protocol may match fewer."""
    matched = lookup(results, "protocol.matching_samples")
    if metric.name == "hungarian_iou" and matched is not None:
        return matched
    return max(map(int, results["ged"]))


def _switch_table(results: dict[str, Any]) -> list[list[str]]:
    """Returns how the pixels of each switched class are drawn."""
    pixels = results["pixel_calibration"]
    rows = [["of a class's pixels, share drawn as", *pixels["classes"]]]
    for place, title in enumerate(("the class itself", "its new class")):
        for name, prefix in (("frequencies", ""), ("probabilities", "  should be")):
            shares = [pair[place] for pair in pixels[name]]
            rows.append([prefix or title, *map(number, shares)])
    others = [None if None in pair else 1 - sum(pair) for pair in pixels["frequencies"]]
    rows.append(["other classes", *map(number, others)])
    undecided = lookup(results, "mode_calibration.undecided_by_class")
    if undecided:
        shares = [undecided[name] for name in pixels["classes"]]
        rows.append(["samples that decide for neither", *map(number, shares)])
    return rows


def _switch_values(results: dict[str, Any]) -> list[tuple[str, float]]:
    """Returns the numbers of `_switch_table` as (name, number)."""
    pixels = results.get("pixel_calibration", {})
    values = {}
    for name, pair in zip(pixels.get("classes", ()), pixels.get("frequencies", ())):
        values[f"pixel_calibration.{name}.class"] = pair[0]
        values[f"pixel_calibration.{name}.new_class"] = pair[1]
    undecided = lookup(results, "mode_calibration.undecided_by_class") or {}
    for name, share in undecided.items():
        values[f"mode_calibration.undecided_by_class.{name}"] = share
    return [(name, value) for name, value in values.items() if value is not None]


def _presence_table(results: dict[str, Any]) -> list[list[str]]:
    strata = results["by_presence"]
    rows = [["graders who see a lesion:", *strata]]
    rows.append(["images", *(str(s["images"]) for s in strata.values())])
    titles = {
        "ged": "energy distance",
        "floor": "floor",
        "hungarian_iou": "Hungarian-matched IoU",
    }
    for name, title in titles.items():
        if all(name in stratum for stratum in strata.values()):
            rows.append([title, *(number(s[name]) for s in strata.values())])
    return rows


def _ways_table(results: dict[str, Any], differences: bool) -> list[list[str]]:
    """Returns the scores of each way through the slices, or what they differ by."""
    first = results["way"]
    columns = {"ged": "energy distance", "hungarian_iou": "matched IoU"}
    columns["volume_crps"] = f"CRPS, {results['volume_unit']}"
    if not differences:
        columns.update(coverage_50="in 50 %", coverage_90="in 90 %")
    head = f"difference from: {WAYS[first]}" if differences else "through the slices"
    rows = [[head, *columns.values()]]
    for way, values in results["ways"].items():
        if differences and way == first:
            continue
        shown = values["difference"] if differences else values
        rows.append([WAYS[way], *(with_bounds(shown[name]) for name in columns)])
    return rows


def _distances(results: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Returns all energy distances as (name, intervals by number of samples)."""
    names = ("ged", "floor", "excess")
    found = [(name, results[name]) for name in names if name in results]
    exact = results.get("exact_modes", {})
    found += [(f"exact_modes.{name}", value) for name, value in exact.items()]
    for name, baseline in results.get("baselines", {}).items():
        found.append((f"baselines.{name}.ged", baseline["ged"]))
    return found


def _numbers(value: dict[str, Any]) -> list[float | None]:
    return [value["mean"], value["low"], value["high"]]
