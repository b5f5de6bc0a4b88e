"""``python -m wavefabric``: the command."""

from wavefabric.cli import main

if __name__ == "__main__":
    main()
