"""Screens: arms compared in pairs over a table of cells."""
