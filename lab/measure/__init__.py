"""What attention does cost: real calls timed and checked on this machine, always in a child process.

`jobs.py` runs in the app and imports no torch; everything else here needs torch and numpy alone.
"""
