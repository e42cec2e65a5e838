"""The harness: plans paired screens, runs them in fresh processes, keeps records and reports from records alone.

`python -m harness VERB key=value...`
"""
