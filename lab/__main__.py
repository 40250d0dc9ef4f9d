"""python -m lab …: measure, look at runs, compute costs.

Exit codes: 0 done; 1 a stated limit was missed (validate, null, cross-check), or whoever read the output
left before its end; 2 the command was not understood; 3 nothing could
be measured as asked (refused); 4 memory ran out before anything was measured; 5 the measuring process
crashed; 6 an implementation gave a wrong result; 130 cancelled.
"""

import io
import sys

from lab.cli.app import app

if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None without a console, another kind where it is captured
            stream.reconfigure(
                errors="replace"
            )  # a terminal that has no "µ" shows "?" instead of a traceback
    app(prog_name="python -m lab")
