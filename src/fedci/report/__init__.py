"""The HTML report of a result: plain data in, one self-contained file out."""
