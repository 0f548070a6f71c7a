"""The baselines, each through its own package (extra `benchmark`)."""
