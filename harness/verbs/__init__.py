"""The verbs of the command line, one module each with a function `run(texts, around) -> exit status`."""
