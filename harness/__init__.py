"""The harness: plans studies, runs them in fresh processes, keeps records and makes reports from records alone.

`afdep-bench NAME [ACTION] key=value...`, or `python -m harness`.
"""
