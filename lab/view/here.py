"""This machine, as far as the pages need it: what kind of device measures, with how many threads, in which
type.

The description comes from a child process (`jobs.machine()`), which takes seconds: until it is known, the
pages assume a CPU. Nothing here waits.
"""
