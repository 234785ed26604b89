# SPDX-License-Identifier: Apache-2.0
"""Pictures of docs/: rows of peers over time, and boxes with arrows, as SVG that is legible on light and on dark pages. What is
drawn is in diagrams.py."""

import re
from html import escape

# Class, and its look on light pages and on dark ones.
LIGHT = {"t": "fill:#1f2937", "m": "fill:#5b6475", "g": "stroke:#c4cad4", "w": "fill:#4f74c8;stroke:#4f74c8", "b": "fill:#9db4e6;stroke:#7f9ad6",
         "x": "fill:#e08a2e;stroke:#e08a2e", "k": "fill:none;stroke:#5b6475", "i": "fill:none;stroke:#b6bdc9", "f": "fill:#c0392b;stroke:#c0392b",
         "p": "fill:#f1f4fa;stroke:#8a94a6", "o": "fill:#fff"}
DARK = {"t": "fill:#e5e9f0", "m": "fill:#a6afbf", "g": "stroke:#4a5263", "w": "fill:#6f92e0;stroke:#6f92e0", "b": "fill:#3d5590;stroke:#5c78bd",
        "x": "fill:#f0a24e;stroke:#f0a24e", "k": "fill:none;stroke:#a6afbf", "i": "fill:none;stroke:#5a6375", "f": "fill:#ff7566;stroke:#ff7566",
        "p": "fill:#2b3140;stroke:#79839a", "o": "fill:#10131a"}


def rules(look, before=""):
    return "".join(f"{before}.{name}{{{style}}}" for name, style in look.items())


def site_css():
    """The same for pictures that are part of a page of the site, which has a switch of its own."""
    return rules(LIGHT, ".diagram ") + "\n" + rules(DARK, "[data-md-color-scheme=slate] .diagram ") + "\n"


def inlined(svg, what):
    """As part of a page: without a style of its own, which would follow the system and not the page's switch."""
    svg = re.sub(r"<style>.*?</style>|\n", "", svg, flags=re.S)
    return f'<figure class="diagram">{svg.replace("<svg ", f"<svg role=img aria-label={chr(34)}{escape(what)}{chr(34)} ", 1)}</figure>'


class Picture:
    def __init__(self, width, height):
        self.size, self.parts = (width, height), []

    def add(self, text):
        self.parts.append(text)

    def text(self, x, y, words, look="t", anchor="middle", size=13, bold=False):
        weight = ' font-weight="600"' if bold else ""
        self.add(f'<text class="{look}" x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"{weight}>{escape(words)}</text>')

    def box(self, x, y, width, height, look="p", words=(), round_=4, opacity=1.0):
        """With lines of words in its middle; the first is bold where there are several."""
        faint = f' opacity="{opacity}"' if opacity < 1 else ""
        self.add(f'<rect class="{look}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_}"{faint}/>')
        for i, line in enumerate(words):
            self.text(x + width / 2, y + height / 2 + 4.5 + 17 * (i - (len(words) - 1) / 2), line, "t" if i == 0 else "m", bold=i == 0 and len(words) > 1)

    def line(self, x1, y1, x2, y2, look="k", dashed=False, width=1.4):
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        self.add(f'<path class="{look}" d="M{x1:g} {y1:g}L{x2:g} {y2:g}" stroke-width="{width}"{dash}/>')

    def arrow(self, x1, y1, x2, y2, look="k", dashed=False, width=1.4):
        length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 0.001)
        u, v = (x2 - x1) / length, (y2 - y1) / length
        a, b = x2 - 7 * u, y2 - 7 * v
        self.line(x1, y1, a, b, look, dashed, width)
        solid = {"k": "m", "x": "x", "f": "f"}[look]
        self.add(f'<path class="{solid}" stroke="none" d="M{x2:g} {y2:g}L{a - 3.5 * v:.1f} {b + 3.5 * u:.1f}L{a + 3.5 * v:.1f} {b - 3.5 * u:.1f}Z"/>')

    def svg(self):
        width, height = self.size
        dark = f"@media(prefers-color-scheme:dark){{{rules(DARK)}}}"
        return (f'<svg xmlns="http://www.w3.org/2000/svg" class="diagram" viewBox="0 0 {width} {height}" font-family="system-ui,sans-serif">\n'
                f"<style>{rules(LIGHT)}{dark}</style>\n" + "\n".join(self.parts) + "\n</svg>\n")


class Timeline(Picture):
    """A row for each peer, time to the right in units."""

    UNIT, ROW, LEFT, TOP, WIDTH = 26, 32, 150, 16, 764  # all of one width, so that a unit is as long in each

    def __init__(self, rows, units):
        super().__init__(self.WIDTH, self.TOP + self.ROW * len(rows) + 20)
        for i, name in enumerate(rows):
            self.text(self.LEFT - 10, self.y(i) + 4.5, name, anchor="end")
            self.line(self.x(0), self.y(i), self.x(units), self.y(i), "g", width=1)
        self.text(self.x(units), self.TOP + self.ROW * len(rows) + 14, "time →", "m", "end", 11)

    def x(self, t):
        return self.LEFT + self.UNIT * t

    def y(self, row):
        return self.TOP + self.ROW * (row + 0.5)

    def work(self, row, *times, look="w", length=1.0, word=""):
        """Boxes of one unit from each of these times: a step, or a pass of a micro-batch."""
        for t in times:
            self.box(self.x(t) + 1.5, self.y(row) - 9, self.UNIT * length - 3, 18, look, round_=3)
            if word:
                self.text(self.x(t + length / 2), self.y(row) + 4, word, "o" if look == "w" else "t", size=11)

    def wait(self, row, begin, end):
        self.box(self.x(begin) + 1.5, self.y(row) - 9, self.UNIT * (end - begin) - 3, 18, "i", round_=3)

    def together(self, t, rows, length=0.7, faint=False):
        """An exchange among these rows."""
        top, bottom = self.y(min(rows)) - 11, self.y(max(rows)) + 11
        self.box(self.x(t) + 1, top, self.UNIT * length - 2, bottom - top, "x", round_=5, opacity=0.35 if faint else 1.0)

    def send(self, begin, row, end, other, look="x"):
        sign = 1 if other > row else -1
        self.arrow(self.x(begin), self.y(row) + 9 * sign, self.x(end), self.y(other) - 9 * sign, look)

    def dies(self, row, t):
        x, y = self.x(t), self.y(row)
        for d in (-1, 1):
            self.line(x - 6, y - 6 * d, x + 6, y + 6 * d, "f", width=2.6)

    def over(self, t, words):
        self.text(self.x(t), self.TOP - 4, words, "m", size=11)
