"""Diagnostics of a study, from sums over sites: number, threshold, verdict and words (docs/diagnostics.md)."""
