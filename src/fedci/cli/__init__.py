"""What people type: commands, their arguments, tables on a screen, progress."""
