// Searches the index, which is fetched at the first key: each word must be in the title or the text.
const input = document.getElementById("search"), found = document.getElementById("found");
let index;
input.addEventListener("input", async () => {
  index ??= fetch(input.dataset.index).then((r) => r.json());
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const rank = (p) => (words.every((w) => p.title.toLowerCase().includes(w)) ? 0 : 1);
  const hits = words.length === 0 ? [] : (await index).filter((p) => {
    const all = (p.title + " " + p.text).toLowerCase();
    return words.every((w) => all.includes(w));
  });
  found.replaceChildren(...hits.sort((a, b) => rank(a) - rank(b)).slice(0, 12).map((p) => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = new URL(p.url.replace(/^\//, ""), new URL(input.dataset.index, document.baseURI)).href;
    link.textContent = p.title;
    item.append(link);
    return item;
  }));
});
