"""The other party: it asks, adds, and never sees a row. It never imports `site`."""
