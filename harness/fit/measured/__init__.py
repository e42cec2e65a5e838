"""Fits to the device's own round trips: the symmetric arm alone is fitted on, and the role-directed one is held out.

`targets` reads what was measured and says which figure compares with a simulated one; `replays` simulates it;
`settings` says what may be fitted; `experiment` does it, for `harness.records.measured_fits` to keep; `page`, `tables`
and `plots` tell it; `machine` is the file that comes of it.
"""

from harness.fit.measured.experiment import perform
from harness.fit.measured.machine import write_machine
from harness.fit.measured.page import summary, text
from harness.fit.measured.plots import errors, image_line
from harness.fit.measured.replays import simulate
from harness.fit.measured.settings import MeasuredSettings, measured_settings
from harness.fit.measured.study import Study

__all__ = [
    "MeasuredSettings",
    "Study",
    "errors",
    "image_line",
    "measured_settings",
    "perform",
    "simulate",
    "summary",
    "text",
    "write_machine",
]
