# SPDX-License-Identifier: Apache-2.0
"""A text for runs of the program that are over in seconds."""


def words(n):
    """A text that is the same everywhere and has something to learn."""
    state, out = 1, []
    for _ in range(n):
        state = (state * 1103515245 + 12345) % 2**31
        out.append(["the", "sea", "and", "sky", "were", "one", "grey", "line"][state >> 20 & 7])
    return " ".join(out) + "\n"
