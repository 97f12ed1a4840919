"""Describes every column of a table and writes the result as JSON, Markdown and CSV."""

import collections
import csv
import io
import json
import os
import statistics
import sys

SAMPLE = """\
month,region,orders,revenue
January,north,120,2410.50
January,south,98,1987.00
February,north,131,2702.25
February,south,104,2110.75
March,north,150,3120.00
March,south,,2290.40
"""


def read_input():
    # The variable is left out for large documents; the file is always there.
    text = os.environ.get("SANDBOX_INPUT")
    if text is None:
        with open("/sandbox/input.json", encoding="utf-8") as file:
            text = file.read()
    return json.loads(text) or {}


def read_table(request):
    """The rows as dictionaries of text, whichever way they were given."""
    if "rows" in request:
        rows = request["rows"]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError("rows must be an array of objects")
        return [{key: "" if value is None else str(value) for key, value in row.items()} for row in rows]
    text = request.get("csv", SAMPLE)
    if not isinstance(text, str):
        raise ValueError("csv must be a string")
    return [
        {key: (value or "").strip() for key, value in row.items() if key is not None}
        for row in csv.DictReader(io.StringIO(text))
    ]


def as_number(text):
    try:
        number = float(text)
    except ValueError:
        return None
    # NaN and infinity are no JSON numbers.
    return number if abs(number) < float("inf") else None


def describe(values):
    present = [value for value in values if value != ""]
    facts = {"count": len(present), "missing": len(values) - len(present)}
    numbers = [as_number(value) for value in present]
    if not present or None in numbers:
        top = collections.Counter(present).most_common(3)
        return {
            "type": "text",
            **facts,
            "distinct": len(set(present)),
            "top": [{"value": value, "count": count} for value, count in top],
        }
    return {
        "type": "number",
        **facts,
        "sum": round(sum(numbers), 4),
        "mean": round(statistics.fmean(numbers), 4),
        "median": round(statistics.median(numbers), 4),
        "min": min(numbers),
        "max": max(numbers),
        "stdev": round(statistics.stdev(numbers), 4) if len(numbers) > 1 else 0.0,
    }


def column_names(rows):
    # A dictionary keeps the order in which columns first appear; later rows may bring new ones.
    return list(dict.fromkeys(name for row in rows for name in row))


def describe_table(rows):
    return {name: describe([row.get(name, "") for row in rows]) for name in column_names(rows)}


def split(rows, column):
    if not any(column in row for row in rows):
        raise ValueError(f"group_by names {column!r}, which is no column")
    groups = collections.OrderedDict()
    for row in rows:
        groups.setdefault(row.get(column, ""), []).append(row)
    return groups


def number_table(columns):
    lines = ["| column | count | missing | mean | median | min | max |", "|---|---|---|---|---|---|---|"]
    for name, facts in columns.items():
        if facts["type"] == "number":
            cells = [facts[key] for key in ("count", "missing", "mean", "median", "min", "max")]
            lines.append("| " + " | ".join([name] + [f"{cell:g}" for cell in cells]) + " |")
    return lines if len(lines) > 2 else ["There is no numeric column."]


def report(title, result):
    lines = [f"# {title}", "", f"{result['rows']} rows, {len(result['columns'])} columns.", "", "## Numbers", ""]
    lines += number_table(result["columns"])
    text_columns = {name: facts for name, facts in result["columns"].items() if facts["type"] == "text"}
    if text_columns:
        lines += ["", "## Text", ""]
    for name, facts in text_columns.items():
        common = ", ".join(f"{entry['value']} ({entry['count']})" for entry in facts["top"])
        lines.append(f"- **{name}**: {facts['distinct']} distinct; most common: {common or 'none'}")
    for name, columns in result.get("groups", {}).items():
        lines += ["", f"## Group: {name}", ""] + number_table(columns)
    return "\n".join(lines) + "\n"


def write_summary(path, columns):
    fields = ["column", "type", "count", "missing", "sum", "mean", "median", "min", "max", "stdev", "distinct"]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, extrasaction="ignore")
        writer.writeheader()
        for name, facts in columns.items():
            writer.writerow({"column": name, **facts})


def main():
    request = read_input()
    rows = read_table(request)
    if not rows:
        raise ValueError("the table has no rows")
    print(f"analysing {len(rows)} rows", flush=True)
    result = {"rows": len(rows), "columns": describe_table(rows)}
    if request.get("group_by"):
        groups = split(rows, request["group_by"])
        result["groups"] = {name: describe_table(members) for name, members in groups.items()}

    files = os.environ["SANDBOX_FILES_DIR"]
    with open(os.path.join(files, "report.md"), "w", encoding="utf-8") as file:
        file.write(report(request.get("title", "Data analysis"), result))
    write_summary(os.path.join(files, "summary.csv"), result["columns"])
    with open(os.environ["SANDBOX_OUTPUT"], "w", encoding="utf-8") as file:
        json.dump(result, file)
    print("wrote report.md and summary.csv")


if __name__ == "__main__":
    try:
        main()
    except ValueError as problem:
        sys.exit(f"data-analysis: {problem}")
