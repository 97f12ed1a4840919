"""Draws labelled numbers as an SVG bar or line chart."""

import json
import os
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, MARGIN = 640, 360, 48
SAMPLE = [{"label": day, "value": value} for day, value in zip("Mon Tue Wed Thu Fri".split(), (12, 19, 7, 15, 22))]


def read_input():
    # The variable is left out for large documents; the file is always there.
    text = os.environ.get("SANDBOX_INPUT")
    if text is None:
        with open("/sandbox/input.json", encoding="utf-8") as file:
            text = file.read()
    return json.loads(text) or {}


def check_points(points):
    if not isinstance(points, list) or not 1 <= len(points) <= 100:
        raise ValueError("points must be an array of 1 to 100 entries")
    for index, point in enumerate(points):
        value = point.get("value") if isinstance(point, dict) else None
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise ValueError(f"points[{index}] needs a number as its value")
    return [(str(point.get("label", "")), float(point["value"])) for point in points]


def text(x, y, content, anchor="middle", size=12):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(content)}</text>'


def draw(title, kind, points):
    values = [value for _, value in points]
    # Zero is always on the axis, so that the heights of bars can be compared.
    low, high = min(0.0, *values), max(0.0, *values)
    span = (high - low) or 1.0
    step = (WIDTH - 2 * MARGIN) / len(points)

    def y(value):
        return HEIGHT - MARGIN - (value - low) / span * (HEIGHT - 2 * MARGIN)

    def x(index):
        return MARGIN + step * (index + 0.5)

    parts = [text(WIDTH / 2, 24, title, size=16)]
    parts.append(f'<line x1="{MARGIN}" y1="{y(0):.1f}" x2="{WIDTH - MARGIN}" y2="{y(0):.1f}" stroke="#888"/>')
    parts += [text(MARGIN - 6, y(value) + 4, f"{value:g}", "end") for value in {low, high}]
    if kind == "bar":
        for index, value in enumerate(values):
            top, bottom = sorted((y(value), y(0)))
            parts.append(
                f'<rect x="{x(index) - step * 0.35:.1f}" y="{top:.1f}" width="{step * 0.7:.1f}" '
                f'height="{bottom - top:.1f}" fill="#3b6ea5"/>'
            )
    else:
        line = " ".join(f"{x(index):.1f},{y(value):.1f}" for index, value in enumerate(values))
        parts.append(f'<polyline points="{line}" fill="none" stroke="#3b6ea5" stroke-width="2"/>')
    parts += [text(x(index), HEIGHT - MARGIN + 18, label) for index, (label, _) in enumerate(points)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n'
        '<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def main():
    request = read_input()
    kind = request.get("kind", "bar")
    if kind not in ("bar", "line"):
        raise ValueError("kind must be bar or line")
    points = check_points(request.get("points", SAMPLE))
    values = [value for _, value in points]
    with open(os.path.join(os.environ["SANDBOX_FILES_DIR"], "chart.svg"), "w", encoding="utf-8") as file:
        file.write(draw(str(request.get("title", "Chart")), kind, points))
    with open(os.environ["SANDBOX_OUTPUT"], "w", encoding="utf-8") as file:
        json.dump({"file": "chart.svg", "kind": kind, "points": len(points), "min": min(values), "max": max(values)}, file)
    print(f"drew {len(points)} points")


if __name__ == "__main__":
    try:
        main()
    except ValueError as problem:
        sys.exit(f"svg-chart: {problem}")
