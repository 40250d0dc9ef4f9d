"""A page run without a browser, and what stands on it."""

from __future__ import annotations

import io
import itertools
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow
from streamlit.testing.v1 import AppTest

from lab.view.navigation import ENTRIES

ROOT = Path(__file__).resolve().parents[2]
FILES = tuple(entry.file for entry in ENTRIES)
NO_NUMBER = re.compile(r"(?<![\w.])(nan|NaN|inf|Infinity|None|null)(?![\w])")
MASKS = re.compile(r"\b(is|all) -inf\b")  # tensors of the math backend


def open_page(file: str, **state: Any) -> AppTest:
    """Run a page with a scenario, as the sidebar's widgets would hold it."""
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    for name, value in state.items():
        at.session_state[name] = value
    at.run()
    return go(at, file)


def go(at: AppTest, file: str) -> AppTest:
    if file != FILES[0]:
        at.switch_page(f"pages/{file}.py").run()
    return at


def words(at: AppTest) -> str:
    """Everything that is written on the page, charts aside."""
    kinds = ("title", "subheader", "markdown", "caption", "metric", "latex", "info", "warning", "success")
    texts = []
    for kind in kinds:
        for element in at.main.get(kind):
            proto = element.proto
            parts = [getattr(proto, name, "") for name in ("body", "label", "delta", "help")]
            texts += [str(part) for part in (element.value if hasattr(element, "value") else "", *parts)]
    return "\n".join(texts)


def chart(at: AppTest) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """The spec of the page's main chart and its data by name."""
    proto = at.main.get("vega_lite_chart")[0].proto
    data = {}
    for dataset in proto.datasets:
        with pyarrow.ipc.open_stream(io.BytesIO(dataset.data.data)) as reader:
            data[dataset.name] = reader.read_all().to_pylist()
    return json.loads(proto.spec), data


def line(at: AppTest, series: str) -> dict[float, float]:
    """One line of the chart: y by x."""
    return {row["x"]: row["y"] for row in chart(at)[1]["lines"] if row["series"] == series}


def faults(at: AppTest) -> list[str]:
    """What must never stand on a page: exceptions, NaN, infinity, None."""
    found = [f"exception: {item.value}" for item in at.exception]
    found += [f"text: {match.group()}" for match in NO_NUMBER.finditer(MASKS.sub("", words(at)))]
    if not at.main.get("vega_lite_chart"):
        return [*found, "no chart"]
    spec, data = chart(at)
    found += [f"spec: {match.group()}" for match in re.finditer(r"\bNaN\b|Infinity", json.dumps(spec))]
    for name, rows in data.items():
        for row in rows:
            for value in row.values():
                if isinstance(value, float) and not math.isfinite(value):
                    found.append(f"{name}: {row}")
                if isinstance(value, str) and NO_NUMBER.search(value):
                    found.append(f"{name}: {row}")
    return found


def sweep(file: str, states: Iterable[dict[str, object]]) -> list[str]:
    """Run one reader's page through many scenarios; the faults, each with its scenario."""
    at, found = open_page(file), []
    for state in states:
        for name, value in state.items():
            at.session_state[name] = value
        at.run()
        found += [f"{state}: {fault}" for fault in faults(at)]
    return found


def pairs(**values: Iterable[object]) -> list[dict[str, object]]:
    """Scenarios in which every value of a control meets every value of every other; far fewer than all."""
    names, options = list(values), [list(options) for options in values.values()]
    left = {
        frozenset(((i, a), (j, b)))
        for i, j in itertools.combinations(range(len(names)), 2)
        for a, b in itertools.product(range(len(options[i])), range(len(options[j])))
    }
    chosen = [] if left else [{0: place} for place in range(len(options[0]))]
    while left:
        scenario = dict(min(left, key=sorted))
        for i in range(len(names)):
            if i not in scenario:
                others = list(scenario.items())
                gains = [
                    sum(frozenset(((i, a), other)) in left for other in others)
                    for a in range(len(options[i]))
                ]
                scenario[i] = gains.index(max(gains))
        left -= {frozenset(pair) for pair in itertools.combinations(scenario.items(), 2)}
        chosen.append(scenario)
    return [{names[i]: options[i][place] for i, place in sorted(one.items())} for one in chosen]
