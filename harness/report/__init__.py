"""What reports share: results, Markdown, plots, and the figures of others."""
