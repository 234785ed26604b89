#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prepares the pages of docs/ for mkdocs, which wants all that a page links to in one folder: a copy of docs/, pages for the files
of the repository that are linked to, and a configuration whose navigation has every page.

usage: site_pages.py OUT        writes OUT/pages and OUT/mkdocs.yml; tools/docs.sh goes on from there

A page that the navigation of docs/site/mkdocs.yml does not reach is an error. An entry that ends with `/` stands for all pages of
that folder, and `files/` for the files that pages link to.
"""

import os
import re
import shutil
import sys
from pathlib import Path

import yaml

import drawing
import markdown_text as md

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".cu": "cpp", ".cuh": "cpp", ".py": "python", ".sh": "bash", ".toml": "toml"}


class Site:
    def __init__(self, out):
        self.out, self.pages = out, out / "pages"
        self.files = {}  # repository path: its page, for what is linked to outside of docs/
        self.errors = []

    def place(self, target):
        """Where the page of a file of the repository is, relative to the pages; None with an error."""
        if target.is_dir() and (target / "README.md").exists():
            target = target / "README.md"
        name = target.relative_to(ROOT).as_posix()
        if name == "README.md":
            return "README.md"
        if target.is_relative_to(DOCS):
            return target.relative_to(DOCS).as_posix()
        if name in PROJECT:
            return f"project/{name}"
        if target.is_file():
            self.files[name] = f"files/{name}.md"
            return self.files[name]
        return None

    def rewritten(self, text, source, place):
        """The page's text with links to where things are in the site, and diagrams as part of the page."""
        def link(match):
            target, hash_, anchor = match[1].partition("#")
            if not target or "://" in target or target.startswith("mailto:"):
                return match[0]
            there = self.place((source.parent / target).resolve())
            if there is None:
                self.errors.append(f"{source.relative_to(ROOT)}: links to {target}, which the site has no page for; link to a file")
                return match[0]
            return f"]({os.path.relpath(there, Path(place).parent)}{hash_}{anchor})"

        def diagram(match):
            picture = (source.parent / match[2]).resolve()
            svg = picture.read_text() if picture.suffix == ".svg" else ""
            return drawing.inlined(svg, match[1]) if 'class="diagram"' in svg else match[0]

        text = md.outside_code(text, lambda part: re.sub(r"^!\[([^\]]*)\]\(([^)]+\.svg)\)$", diagram, part, flags=re.M))
        return md.outside_code(text, lambda part: md.LINK.sub(link, part))

    def write(self, place, text):
        path = self.pages / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def copy(self):
        for path in sorted(DOCS.rglob("*")):
            name = path.relative_to(DOCS)
            if path.is_dir() or name.parts[0] == "site":
                continue
            if path.suffix == ".md":
                self.write(name, self.rewritten(path.read_text(), path, name.as_posix()))
            else:
                (self.pages / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, self.pages / name)
        for name in PROJECT:
            self.write(f"project/{name}", self.rewritten((ROOT / name).read_text(), ROOT / name, f"project/{name}"))
        for path in (DOCS / "site").iterdir():
            if path.suffix == ".md":
                self.write(path.name, self.rewritten(path.read_text(), path, path.name))
            elif path.suffix in (".css", ".svg"):
                shutil.copy(path, self.pages / path.name)
        for name, place in self.files.items():
            text = (ROOT / name).read_text()
            self.write(place, f"# {name}\n\n```{LANGUAGES.get(Path(name).suffix, 'text')}\n{text.rstrip()}\n```\n")
        self.write("diagrams.css", drawing.site_css())

    def navigation(self, entries):
        """With folders replaced by their pages."""
        found = []
        for entry in entries:
            (title, value), = entry.items() if isinstance(entry, dict) else [(None, entry)]
            if isinstance(value, list):
                found.append({title: self.navigation(value)})
            elif value.endswith("/"):
                pages = sorted((self.pages / value).rglob("*.md"), key=lambda p: (p.name != "README.md", p))
                names = [p.relative_to(self.pages).as_posix() for p in pages]
                found += [{title: names}] if title else names
            else:
                found.append(entry)
        return found

    def reached(self, entries):
        for entry in entries:
            value = next(iter(entry.values())) if isinstance(entry, dict) else entry
            yield from self.reached(value) if isinstance(value, list) else [value]

    def configure(self):
        settings = yaml.safe_load((DOCS / "site/mkdocs.yml").read_text())
        nav = settings["nav"] = self.navigation(settings["nav"])
        listed = list(self.reached(nav))
        have = {p.relative_to(self.pages).as_posix() for p in self.pages.rglob("*.md")}
        self.errors += [f"docs/site/mkdocs.yml: the navigation names {n}, which is not there" for n in listed if n not in have]
        self.errors += [f"docs/{n}: is not in the navigation; give it a line in docs/site/mkdocs.yml" for n in sorted(have - set(listed))]
        self.errors += [f"docs/site/mkdocs.yml: the navigation has {n} twice" for n in sorted(set(listed)) if listed.count(n) > 1]
        settings |= {"docs_dir": str(self.pages), "site_dir": str(self.out.parent / "site")}
        (self.out / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    site = Site(Path(sys.argv[1]).resolve())
    shutil.rmtree(site.pages, ignore_errors=True)
    site.copy()
    site.configure()
    print("\n".join(site.errors) or f"site: {sum(1 for _ in site.pages.rglob('*.md'))} pages")
    return 1 if site.errors else 0


if __name__ == "__main__":
    sys.exit(main())
