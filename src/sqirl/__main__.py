"""`python -m sqirl` is `sqirl`."""

from sqirl.cli.main import run

if __name__ == "__main__":  # workers import this module, too
    run()
