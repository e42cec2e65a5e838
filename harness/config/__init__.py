"""Configuration at the edge: Hydra composes it, every value is read once, and help says what it means."""
