"""What the lines of one layer's attention are added up from: each pass with its counts, time and limit."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from lab.cost import prediction_terms
from lab.cost.predict import Term
from lab.runs import Run
from lab.view import skeleton
from lab.view.format import bytes_text, flops_text, seconds_text, share
from lab.view.prompt import LABELS, Prompt


def table(view: Prompt, tokens: int, run: Run | None) -> pd.DataFrame:
    """One row a pass of every line that is drawn, and one for its sum.

    Args:
        view: what the charts of the page share.
        tokens: context.
        run: measured here; None for none.
    """
    rows = []
    for key, label in LABELS.items():
        terms = view.terms(key, tokens, run)
        total = sum(term.seconds for term in terms)
        rows += [_row(label, term, total, binary=view.scene.binary) for term in terms]
        if terms:
            rows.append({"line": label, "pass": "sum", "time": seconds_text(total), "share": share(1.0)})
    return pd.DataFrame(rows).fillna("")


def _row(label: str, term: Term | prediction_terms.Term, total: float, *, binary: bool) -> dict[str, str]:
    return {
        "line": label, "pass": term.name, "FLOPs": flops_text(term.flops) if term.flops else "",
        "bytes": bytes_text(term.bytes_moved, binary), "time": seconds_text(term.seconds),
        "share": share(term.seconds / total) if total else "", "limited by": term.limited_by,
    }  # fmt: skip


def show(view: Prompt, tokens: int, run: Run | None, where: str) -> None:
    """The table under a caption that says under whose ceilings it is.

    Args:
        view: what the charts of the page share.
        tokens: context.
        run: measured here; None for none.
        where: the ceilings of the first two lines, in words.
    """
    skeleton.table(table(view, tokens, run))
    here = view.forecast(run)
    own = "" if not view.terms("fused_here", tokens, run) else f" Here: this machine's {here.kind}."
    st.caption(f"Naive and SDPA: bounds under the ceilings of {where}.{own}")
    for key, label in LABELS.items():
        for note in view.notes(key, tokens, run):
            st.caption(f"{label}: {note}.")
