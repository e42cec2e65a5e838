"""Device micro-benchmarks, and the simulator's constants that follow from them.

`native` holds the probes, one CUDA program; `program` builds it and finds it; `device` runs it; `rules` say which
readings give a constant; `judging` applies them and calls void what cannot be; `page` and `machine_file` tell it.
"""
