"""``python -m lbhash``, as torchrun starts it."""

from lbhash.cli import main

if __name__ == "__main__":
    main()
