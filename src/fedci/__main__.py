"""`python -m fedci`: the command line."""

from fedci.cli.commands import main

if __name__ == "__main__":
    main()
