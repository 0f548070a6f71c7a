"""Presets are data: one TOML file each, read by `fedci.options.preset`."""
