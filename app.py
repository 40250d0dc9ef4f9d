"""The entrypoint: the menu of pages and the scenario bar. Everything else is a page."""

import streamlit as st

from lab.view import glossary, navigation, scenario, skeleton

st.set_page_config(page_title="Attention-cost lab", layout="wide", initial_sidebar_state=244)
page = navigation.announce()
scenario.sidebar()
glossary.button()
skeleton.style(scenario.theme())
for sentence in scenario.notes():
    st.warning(sentence, icon=":material/link_off:")
scenario.watch_theme()
page.run()
