"""A control to drop a file on, as a component of gradio.

gradio's own component uploads a file to a folder of the server. Here the browser reads the file, whose text is a value
like any other: it is checked, it is never stored, and it leaves with the page.
"""

from __future__ import annotations

import html
import json
from typing import Any

import gradio as gr

from ghrr_lab.play.own_files import SUFFIXES
from ghrr_lab.play.tab import File

_STYLE = """
label { display: block; margin: 0.4rem 0; padding: 0.7rem; text-align: center; line-height: 1.4; cursor: pointer;
  border: 2px dashed var(--border-color-primary); border-radius: 8px; color: var(--body-text-color); }
label.over, label:focus-within { border-color: var(--color-accent); }
input { position: absolute; width: 1px; height: 1px; opacity: 0; }
output { font-weight: 600; overflow-wrap: anywhere; }
small { display: block; opacity: 0.8; }
button { min-height: 2.4rem; padding: 0 0.6rem; font-size: 0.85rem; cursor: pointer; color: var(--body-text-color);
  background: var(--button-secondary-background-fill); border: 1px solid var(--border-color-primary);
  border-radius: 6px; }
[hidden] { display: none; }
"""

# Listeners are on the whole component, which stays when gradio renders its content again.
_SCRIPT = """
const most = MOST, suffixes = SUFFIXES;
const find = (name) => element.querySelector(name);
let problem = "";
const show = () => {
    const text = typeof props.value === "string" ? props.value : "";
    find("output").textContent = problem || (text ? text.slice(0, text.indexOf("\\n")) : "");
    find("output").setAttribute("role", problem ? "alert" : "status");
    find("button").hidden = !text;
};
const send = (text, fault = "") => { problem = fault; props.value = text; show(); trigger("input"); };
const refuse = (fault) => send("", fault);  // what belongs to the file before is cleared
const read = async (file) => {
    const name = file.name.replace(/[\\r\\n]/g, " ");
    if (!suffixes.some((suffix) => name.toLowerCase().endsWith(suffix)))
        return refuse(`${name}: choose a file that ends in ${suffixes.join(", ")}.`);
    if (file.size > most)
        return refuse(`${name} has ${file.size.toLocaleString("en")} bytes, and ${most.toLocaleString("en")} fit here.`
            + " Keep fewer rows or columns, or use the command line.");
    try {
        send(name + "\\n" + new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer()));
    } catch (error) {
        refuse(`${name} cannot be read as UTF-8 text. Save it as UTF-8, and drop it again.`);
    }
};
const over = (event, is_over) => { event.preventDefault(); find("label").classList.toggle("over", is_over); };
element.addEventListener("dragover", (event) => over(event, true));
element.addEventListener("dragleave", (event) => over(event, false));
element.addEventListener("drop", (event) => {
    over(event, false);
    if (event.dataTransfer.files.length) read(event.dataTransfer.files[0]);
});
element.addEventListener("change", (event) => {
    event.stopPropagation();
    if (event.target.files && event.target.files.length) read(event.target.files[0]);
    event.target.value = "";  // the same file can be chosen again
});
element.addEventListener("click", (event) => { if (event.target.closest("button")) send(""); });
watch("value", show);
show();
"""


def file_drop(control: File) -> Any:
    """Return the component of a file: an area to drop it on or to choose it with, its name, and a button to remove it.

    A file that is too large or not text is refused in the browser.
    """
    label = html.escape(control.label, quote=True)
    limits = f"CSV or JSON Lines, at most {control.max_rows:,} rows and {control.max_bytes / 1e6:g} MB"
    script = _SCRIPT.replace("MOST", json.dumps(control.max_bytes)).replace("SUFFIXES", json.dumps(SUFFIXES))
    return gr.HTML(
        control.default,
        label=control.label,
        html_template=f'<label>{label}<input type="file" accept="{",".join(SUFFIXES)}"><small>{limits}</small></label>'
        '<output></output> <button type="button" hidden>remove the file</button>',
        css_template=_STYLE,
        js_on_load=script,
        elem_id=f"file-{control.name}",
    )
