"""A control to draw with a finger or the mouse, as a component of gradio.

gradio's own sketch pad uploads a file for every stroke. This one has a short text as its value, which can be in the
address of the page and is checked like any other text.
"""

from __future__ import annotations

import html
from typing import Any

import gradio as gr

from ghrr_lab.play.tab import BITMAP_DIGITS, Drawing

_STYLE = """
canvas { display: block; width: 100%; max-width: 15rem; aspect-ratio: 1; margin: 0.4rem 0; image-rendering: pixelated;
  color: var(--body-text-color); background: var(--input-background-fill);
  border: 1px solid var(--border-color-primary); border-radius: 8px; cursor: crosshair; touch-action: none; }
button { min-width: 2.4rem; min-height: 2.4rem; margin: 0 0.3rem 0.3rem 0; padding: 0 0.6rem; cursor: pointer;
  color: var(--body-text-color); background: var(--button-secondary-background-fill);
  border: 1px solid var(--border-color-primary); border-radius: 6px; }
"""

# Listeners are on the whole component, which stays when gradio renders its content again.
_SCRIPT = """
const side = 32, radius = 1.6;  // scaled to the full height, strokes are as wide as in the data
let bits = new Uint8Array(side * side), last = null;
const canvas = () => element.querySelector("canvas");
const paint = () => {
    const context = canvas().getContext("2d");
    context.clearRect(0, 0, side, side);
    context.fillStyle = getComputedStyle(canvas()).color;
    bits.forEach((bit, i) => { if (bit) context.fillRect(i % side, Math.floor(i / side), 1, 1); });
};
const read = () => {
    const text = typeof props.value === "string" && /^[0-9a-f]{256}$/.test(props.value) ? props.value : "0".repeat(256);
    bits = Uint8Array.from({length: side * side}, (_, i) => parseInt(text[i >> 2], 16) >> (3 - (i & 3)) & 1);
    paint();
};
const send = (text) => { props.value = text; read(); trigger("input"); };
const written = () => Array.from({length: bits.length / 4}, (_, i) =>
    (8 * bits[4 * i] + 4 * bits[4 * i + 1] + 2 * bits[4 * i + 2] + bits[4 * i + 3]).toString(16)).join("");
const draw = (event) => {
    const box = canvas().getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * side, y = (event.clientY - box.top) / box.height * side;
    const [fromX, fromY] = last || [x, y];
    const steps = Math.max(1, Math.ceil(2 * Math.hypot(x - fromX, y - fromY)));
    for (let step = 1; step <= steps; step++) {
        const penX = fromX + (x - fromX) * step / steps, penY = fromY + (y - fromY) * step / steps;
        bits.forEach((_, i) => {
            if (Math.hypot(i % side + 0.5 - penX, Math.floor(i / side) + 0.5 - penY) <= radius) bits[i] = 1;
        });
    }
    last = [x, y];
    paint();
};
element.addEventListener("pointerdown", (event) => {
    if (event.target !== canvas()) return;
    event.preventDefault();
    canvas().setPointerCapture(event.pointerId);
    draw(event);
});
element.addEventListener("pointermove", (event) => { if (last) draw(event); });
const stop = () => { if (last) { last = null; send(written()); } };
element.addEventListener("pointerup", stop);
element.addEventListener("pointercancel", stop);
element.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) send(button.dataset.drawing);
});
watch("value", () => { if (!last) read(); });
read();
"""


def sketch_pad(control: Drawing) -> Any:
    """Return the component of a drawing: a canvas, a button per example, and one that clears the canvas."""
    label = html.escape(control.label, quote=True)
    choices = {**control.examples, "clear": "0" * BITMAP_DIGITS}
    buttons = "".join(
        f'<button type="button" data-drawing="{drawing}">{html.escape(name)}</button>'
        for name, drawing in choices.items()
    )
    return gr.HTML(
        control.default,
        label=control.label,
        html_template=f'<div>{label}</div><canvas width="32" height="32" role="img" aria-label="{label}"></canvas>'
        f'<div role="group" aria-label="examples">{buttons}</div>',
        css_template=_STYLE,
        js_on_load=_SCRIPT,
        elem_id=f"sketch-{control.name}",
    )
