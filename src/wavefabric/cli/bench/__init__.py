"""`wavefabric bench`: options and their parsing; imports `cli.common`, and `wavefabric.bench` when called."""
