"""cdec."""
