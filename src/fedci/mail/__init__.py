"""Parties that may not connect: every message a file, signed, sealed, bound to its step, and carried by people."""
