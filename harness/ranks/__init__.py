"""The ranks of a batch: groups on the simulator and on GPUs, and what opens, proves and times an arm on them."""
