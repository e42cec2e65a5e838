"""The study of hunts."""
