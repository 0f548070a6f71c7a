"""Seconds, memory and bytes: of a fit, a network, masks, linkage, scale."""
