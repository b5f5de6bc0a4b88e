"""Arrays of a library that knows DLPack alone."""


class DLPack:
    """Offers a NumPy array by ``__dlpack__`` alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()
