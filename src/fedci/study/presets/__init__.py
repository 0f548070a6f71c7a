"""Presets are data: one TOML file each, read by `study.options.preset`."""
