"""Where nothing can be kept, kernels still work."""

from kohort.columnar.compiling import NUMBER, kernel


def test_a_kernel_that_cannot_be_kept_is_compiled_all_the_same():
    namespace = {}
    # of no file: numba finds no place to keep it
    exec("def next_number(number):\n    return number + 1", namespace)
    assert kernel(NUMBER)(namespace["next_number"])(41) == 42
