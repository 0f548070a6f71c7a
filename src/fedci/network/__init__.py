"""Parties as processes on machines of their own: sealed kits, certificates, and the engine that carries messages."""
