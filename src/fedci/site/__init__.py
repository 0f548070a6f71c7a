"""One party: it owns rows, answers what it may, and keeps a ledger of all that left. It never imports `coordinator`."""
