"""Errors that are the user's to mend: one clear line each, exit code 2."""


class InputError(ValueError):
    """Bad input. The message names the key or argument, what was given and what is allowed."""


class MissingExtra(ImportError):
    """An optional dependency is absent. The message names the extra that brings it."""

    def __init__(self, what: str, extra: str):
        super().__init__(f"{what} needs an optional package: pip install 'wavefabric[{extra}]'")
