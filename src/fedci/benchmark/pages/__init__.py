"""From rows of figures to tables, pictures and pages."""
