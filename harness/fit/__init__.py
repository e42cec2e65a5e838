"""Fits of the cost model's constants to published figures: cells with a changed machine, slopes, and what they tell."""
