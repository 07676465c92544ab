"""`python -m minstein` is the command `minstein`."""

from minstein_cli import main

if __name__ == "__main__":
    main()
