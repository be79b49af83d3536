// Small helpers to make a page of. Text goes into text nodes only.

type Attributes = Record<string, string | ((e: Event) => void) | undefined>

/** Makes an element; functions among the attributes listen to events. */
export function el<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: (Node | string)[]): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') e.addEventListener(name, value)
    else if (value !== undefined) e.setAttribute(name, value)
  }
  e.append(...children)
  return e
}

/** Text of a program as a label may show it: one short line, in which nothing
 * changes the direction of what is beside it. */
export function label(text: string, most = 80): string {
  const line = text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+/g, ' ').trim()
  const letters = Array.from(line)
  return letters.length > most ? letters.slice(0, most - 1).join('') + '…' : line
}

/** Asks a question; resolves to whether the answer was yes. */
export function ask(question: string, detail: string, yes: string): Promise<boolean> {
  return new Promise((resolve) => {
    const dialog = el('dialog', { class: 'ask', close: () => { resolve(dialog.returnValue === 'yes'); dialog.remove() } },
      el('p', {}, question), el('code', {}, detail),
      el('div', { class: 'buttons' },
        el('button', { class: 'plain', click: () => dialog.close('no') }, 'Cancel'),
        el('button', { class: 'yes', click: () => dialog.close('yes') }, yes)))
    document.body.append(dialog)
    dialog.showModal()
  })
}
