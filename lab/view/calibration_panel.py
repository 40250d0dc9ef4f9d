"""The measure panel of a calibration: it brings constants, not points."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from lab.runs import Run
from lab.runs.readings.confidence import confidence_words
from lab.view import calibrations
from lab.view.measure_panel import Panel


@dataclass(frozen=True)
class CalibrationPanel(Panel):
    """A panel whose run is the newest that calibrated this device, and whose table is of its constants."""

    def run(self) -> Run | None:
        """The run whose calibration this machine's lines come from, in the type and with the threads measured."""
        return calibrations.calibrated_run(self.spec.device, self.spec.dtype, self.spec.threads)

    def table(self, run: Run | None, *, active: bool) -> None:
        """Every figure of the calibration, with where it comes from, and how far they can be trusted."""
        found = calibrations.of_run(run, self.spec.dtype) if run else None
        if found is None:
            st.caption("This machine has not been calibrated in this number type yet.")
            return
        warning = calibrations.noise(run)
        if warning:
            st.warning(warning, icon=":material/graphic_eq:")
        st.caption(confidence_words(found))
        rows = [
            {"figure": name, "value": value, "unit": unit, "source": source}
            for name, value, unit, source in found.constants()
        ]
        with st.expander(f"The {len(rows)} constants found here"):
            st.dataframe(rows, hide_index=True, height="content", key=f"constants_{self.page}")
