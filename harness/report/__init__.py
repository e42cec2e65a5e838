"""What reports share: results, Markdown, plots, statistics, and the figures of others."""
