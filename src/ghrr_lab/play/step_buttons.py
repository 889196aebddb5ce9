"""A control to put names in order, one click per step, as a component of gradio.

gradio's own list of several choices has each choice at most once; a walk through a family has a brother of a brother.
"""

from __future__ import annotations

import html
import json
from typing import Any

import gradio as gr

from ghrr_lab.play.tab import Steps

_STYLE = """
output { display: block; min-height: 1.5rem; margin: 0.4rem 0; font-weight: 600; overflow-wrap: anywhere; }
div[role=group] { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.2rem, 1fr)); gap: 0.3rem; }
button { min-height: 2.4rem; margin: 0; padding: 0; font-size: 0.85rem; white-space: nowrap; cursor: pointer;
  color: var(--body-text-color); background: var(--button-secondary-background-fill);
  border: 1px solid var(--border-color-primary); border-radius: 6px; }
button:disabled { opacity: 0.4; cursor: default; }
.edit { margin-top: 0.6rem; }
"""

# Listeners are on the whole component, which stays when gradio renders its content again.
_SCRIPT = """
const most = MOST;
const steps = () => typeof props.value === "string" ? props.value.split(" ").filter((name) => name) : [];
const show = () => {
    const names = steps();
    element.querySelector("output").textContent = names.length ? names.join(" → ") : "no steps";
    element.querySelectorAll("[data-name]").forEach((button) => { button.disabled = names.length >= most; });
    element.querySelectorAll("[data-edit]").forEach((button) => { button.disabled = !names.length; });
};
element.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const {name, edit} = button.dataset;
    props.value = (name ? [...steps(), name] : edit === "last" ? steps().slice(0, -1) : []).join(" ");
    show();
    trigger("input");
});
watch("value", show);
show();
"""


def step_buttons(control: Steps) -> Any:
    """Return the component of a list of steps: the steps, a button per name, and two to remove steps."""
    label = html.escape(control.label, quote=True)
    names = "".join(
        f'<button type="button" data-name="{html.escape(name, quote=True)}">{html.escape(name)}</button>'
        for name in control.options
    )
    edits = "".join(
        f'<button type="button" data-edit="{edit}">{text}</button>'
        for edit, text in {"last": "remove last", "all": "remove all"}.items()
    )
    return gr.HTML(
        control.default,
        label=control.label,
        html_template=f"<div>{label}</div><output></output>"
        f'<div role="group" aria-label="add a step">{names}</div>'
        f'<div role="group" class="edit" aria-label="remove steps">{edits}</div>',
        css_template=_STYLE,
        js_on_load=_SCRIPT.replace("MOST", json.dumps(control.most)),
        elem_id=f"steps-{control.name}",
    )
