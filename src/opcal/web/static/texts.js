/** All words of the pages; to translate, translate texts.json. */
export const T = await (await fetch("/static/texts.json")).json();
