"""Small pieces of HTML. Every number stands in a <data> element whose value is the one in the JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Html:
    return value if isinstance(value, Html) else Html(escape(str(value)))


def number(value: float | None, style: str = ".3f", missing: str = "not enough labels") -> Html:
    """A number as printed, with its full value behind it."""
    if value is None:
        return Html(f'<span class="soft">{escape(missing)}</span>')
    return Html(f'<data value="{value!r}">{escape(format(value, style))}</data>')


def percent(value: float | None, digits: int = 1) -> Html:
    return number(value, f".{digits}%")


def interval(lower: float | None, upper: float | None, style: str = ".3f") -> Html:
    if lower is None or upper is None:
        return Html("")
    return Html(f"{number(lower, style)} to {number(upper, style)}")


def table(head: Sequence[object], rows: Iterable[Sequence[object]], numeric: int = 1, caption: str = "") -> Html:
    """Columns from the `numeric`-th on are aligned right."""

    def cells(tag: str, values: Sequence[object]) -> str:
        classes = (' class="n"' if i >= numeric else "" for i in range(len(values)))
        scope = ' scope="col"' if tag == "th" else ""
        return "".join(f"<{tag}{scope}{c}>{text(v)}</{tag}>" for c, v in zip(classes, values, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    named = f'<caption class="soft">{escape(caption)}</caption>' if caption else ""
    return Html(f'<div class="scroll"><table>{named}<thead><tr>{cells("th", head)}</tr></thead>{body}</table></div>')


def listed(items: Iterable[object]) -> Html:
    return Html("<ul>" + "".join(f"<li>{text(item)}</li>" for item in items) + "</ul>")


def section(title: str, *parts: object) -> Html:
    return Html(f"<section><h2>{escape(title)}</h2>{''.join(text(part) for part in parts)}</section>")


def paragraph(words: object, kind: str = "") -> Html:
    return Html(f'<p class="{kind}">{text(words)}</p>' if kind else f"<p>{text(words)}</p>")
