"""Pure mathematics of privacy: masked sums, keys, keyed tokens, noise and its account. No party, no message."""
