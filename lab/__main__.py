"""python -m lab …: measure, look at runs, compute costs.

Exit codes: 0 done; 1 a stated limit was missed (validate); 2 the command was not understood; 3 nothing could
be measured as asked (refused); 4 memory ran out before anything was measured; 5 the measuring process
crashed; 6 an implementation gave a wrong result; 130 cancelled.
"""

from lab.cli.app import app

if __name__ == "__main__":
    app(prog_name="python -m lab")
