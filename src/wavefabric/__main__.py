"""Run the command line as ``python -m wavefabric``."""

from wavefabric.cli import main

if __name__ == "__main__":
    main()
