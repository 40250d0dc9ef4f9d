"""The experiments, one file each; registry.py names them all."""
