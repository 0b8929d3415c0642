"""Experiments: recipes, their grids of runs, and the folder that their outputs go to.

Read ``recipe`` (what a TOML file may say), ``grid`` (from a recipe to cells, each the options of
one ``cdec sample``), ``folder`` (outputs, and the manifest that tells what changed), then
``carry_out`` (compile, draw, evaluate). Commands alone import from here.
"""
