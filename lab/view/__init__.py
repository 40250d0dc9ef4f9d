"""How it looks: charts from data frames (altair), and the streamlit pieces that the pages share.

palette.py, format.py, axes.py, charts.py and frames.py know nothing of streamlit and are tested as plain
functions. navigation.py and scenario.py run on every page; skeleton.py and measure_panel.py are what a
page is built from.
"""
