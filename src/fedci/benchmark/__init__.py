"""FedCI measured against its peers: `run` makes figures, `cost` seconds and bytes, `pages` the documentation."""
