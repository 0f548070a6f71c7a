"""The grid: data sets, methods in their modes, protocols, cells on disk."""
