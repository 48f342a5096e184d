"""`python -m nextquery` is the `nextquery` command."""

from nextquery.cli.entry import run

if __name__ == "__main__":
    run()
