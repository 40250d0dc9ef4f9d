"""The attention-cost lab: what attention should cost, what it does cost, and the two on one chart.

The map of the package, from the bottom up; each layer imports only from those before it:

lab.cost     WHAT IT SHOULD COST. Exact counts of FLOPs and bytes from shapes; numpy and stdlib only.
lab.runs     WHAT HAPPENED. Records of measurements, JSON in and out, the store of run files.
lab.measure  WHAT IT DOES COST. torch: real kernels, timed and weighed in a child process.
lab.view     HOW IT LOOKS. altair and streamlit: charts, controls, the pages' common parts.
lab.cli      The same answers in a terminal: ``python -m lab --help``.
lab.data     Models, hardware, recorded runs, claims, glossary and references as data files, each with its source.
"""
