"""The measure panel of a calibration: it brings constants, not points."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from lab.runs import Run
from lab.view import calibrations
from lab.view.job_status import ACTIVE, show_status
from lab.view.measure_panel import REFRESH_S, Draw, Panel


@dataclass(frozen=True)
class CalibrationPanel(Panel):
    """A panel whose run is the newest that calibrated this device, and whose table is of its constants."""

    def run(self) -> Run | None:
        """The newest run that holds a calibration in the type measured."""
        return calibrations.calibrated_run(self.spec.device, self.spec.dtype)

    def live(self, draw: Draw) -> None:
        """The chart, the status line and the table of constants; redrawn while a job is active."""
        job = self.job()
        active = job is not None and job.state in ACTIVE
        orphan = self.orphan(job)

        @st.fragment(run_every=REFRESH_S if active else None)
        def body() -> None:
            now, shown = self.job(), self.run()
            draw(shown)
            with st.container(key=f"status_{self.page}"):
                show_status(now, own=self._is_own(now), orphan=orphan)
            self.constants(shown)
            if self.changed(now, active=active, orphan=orphan):
                st.rerun()

        body()
        self.downloads()

    def constants(self, run: Run | None) -> None:
        """Every figure of the calibration, with where it comes from."""
        found = calibrations.of_run(run, self.spec.dtype) if run else None
        if found is None:
            st.caption("This machine has not been calibrated in this number type yet.")
            return
        warning = calibrations.noise_here(self.spec.device, self.spec.dtype, self.spec.threads)
        if warning:
            st.warning(warning, icon=":material/graphic_eq:")
        rows = [
            {"figure": name, "value": value, "unit": unit, "source": source}
            for name, value, unit, source in found.constants()
        ]
        with st.expander(f"The {len(rows)} constants found here"):
            st.dataframe(rows, hide_index=True, height="content", key=f"constants_{self.page}")
