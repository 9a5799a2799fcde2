"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def html(lines: Iterable[str]) -> str:
    """Headings, paragraphs, pictures and tables: the Markdown that is written here, no more."""
    out: list[str] = []
    rows: list[str] = []
    for line in [*lines, ""]:
        if line.startswith("|"):
            rows.append(line)
            continue
        if rows:
            out.append(_table(rows))
            rows = []
        out.append(_line(line))
    return "\n".join(part for part in out if part)


def _table(rows: list[str]) -> str:
    cells = [[_inline(cell.strip()) for cell in row.strip("|").split("|")] for row in rows]
    head = "".join(f"<th>{c}</th>" for c in cells[0])
    body = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in cells[2:])
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _line(line: str) -> str:
    if line.startswith("#"):
        level = len(line) - len(line.lstrip("#"))
        return f"<h{level}>{_inline(line[level:].strip())}</h{level}>"
    if line.startswith("!["):
        words, source = line[2:].rstrip(")").split("](")
        return f'<figure><img alt="{_plain(words)}" src="{source}"><figcaption>{_plain(words)}</figcaption></figure>'
    if line.startswith("- "):
        return f"<p>• {_inline(line[2:])}</p>"
    return f"<p>{_inline(line)}</p>" if line.strip() else ""


def _plain(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _inline(text: str) -> str:
    """**bold** and `code`."""
    for mark, tag in (("**", "b"), ("`", "code")):
        parts = text.split(mark)
        text = "".join(p if i % 2 == 0 else f"<{tag}>{p}</{tag}>" for i, p in enumerate(map(_keep(mark), parts)))
    return text


def _keep(mark: str):  # type: ignore[no-untyped-def]
    return _plain if mark == "**" else str
