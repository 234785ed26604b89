# SPDX-License-Identifier: Apache-2.0
"""What tools that read pages know about Markdown: what is code, what is a link, which anchors a page has."""

import re

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)```(.*)$")


def outside_code(text, change):
    """The text with `change` applied to all that is neither a fenced block nor a code span."""
    parts = re.split(r"(^ *```.*?^ *```[ ]*$|`[^`\n]+`)", text, flags=re.M | re.S)
    # Links have code in their names ([`a`](b)): what is between two spans is changed together with the span's text set aside.
    spans = parts[1::2]
    joined = "".join(p if i % 2 == 0 else f"\x00{i // 2}\x00" for i, p in enumerate(parts))
    return re.sub(r"\x00(\d+)\x00", lambda m: spans[int(m[1])], change(joined))


def blocks(text):
    """The fenced blocks: number of the first line within, what follows the fence, the lines without their indentation."""
    found, inside = [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and inside is None:
            inside = (number + 1, fence[2].strip(), [], len(fence[1]))
        elif fence:
            found.append(inside[:3])
            inside = None
        elif inside is not None:
            inside[2].append(line[inside[3]:])
    return found


def lines_of_text(text):
    """The lines outside fenced blocks, with their numbers."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def slug(heading):
    """The anchor that GitHub gives a heading, and our site too."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def anchors(text):
    """Of headings, and those given by hand."""
    found = set(re.findall(r'<a id="([^"]+)"', text))
    for _, line in lines_of_text(text):
        heading = re.match(r"#{1,6} +(.*?)#*$", line)
        if heading:
            name, count = slug(heading[1]), 1
            while name in found:
                name, count = f"{slug(heading[1])}-{count}", count + 1
            found.add(name)
    return found
