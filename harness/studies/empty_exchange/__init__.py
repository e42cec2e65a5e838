"""The study of the tutorial: what an exchange without tokens costs."""
