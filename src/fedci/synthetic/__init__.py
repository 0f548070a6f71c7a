"""Data with known truth: the paper's, more generators, the IHDP trial, three hospitals of nobody."""
