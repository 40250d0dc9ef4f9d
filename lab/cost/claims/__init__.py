"""The ledger's claims and the functions that recompute them; lab.cost.evidence is the way in.

printed.py: printed numbers as intervals. facts.py: measured tables. ledger.py: the records and their data.
attention.py, models.py, caches.py, measured.py, printed_sums.py: one function per kind of recomputation.
registry.py: those functions by name.
"""
