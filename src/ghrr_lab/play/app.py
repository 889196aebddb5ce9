"""The page: one tab per idea, with its controls, its picture and its code.

Functions have no state. The data of a user (the values of controls, a trained model) are in the browser, in the
address, or in ``gradio.State``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import gradio as gr

from ghrr_lab.play import (
    architectures,
    attention,
    capacity,
    cups,
    family,
    kernels,
    learn,
    matrices,
    order,
    records,
    search,
    trees,
)
from ghrr_lab.play.file_drop import file_drop
from ghrr_lab.play.pictures import message
from ghrr_lab.play.sketch_pad import sketch_pad
from ghrr_lab.play.step_buttons import step_buttons
from ghrr_lab.play.tab import Choice, Control, Drawing, File, Slider, Steps, Tab, Values, View

# Raised by the library for input that is not valid, and by torch for sizes that do not fit.
_ERRORS = (ValueError, TypeError, OverflowError, MemoryError, RuntimeError)
# Pictures are drawn one at a time, in the order of the requests: a late picture of old values would replace a new one.
_EVENT: dict[str, Any] = {
    "preprocess": False,
    "show_progress": "hidden",
    "concurrency_limit": 1,
    "concurrency_id": "draw",
}
_PROGRESS = gr.Progress()  # gradio recognises it as a default, and gives each call its own
_UNUSED_FILES = (600, 3600)  # seconds between two removals of temporary files, and their age
_MAX_ADDRESS = 1500  # characters of a value in the address; a longer one is left out


def show(tab: Tab, given: Values, prepared: Any = None) -> View:
    """Draw a tab, or show why the values cannot be drawn; then nothing remains of what was drawn before."""
    try:
        view = tab.draw(tab.check(given), prepared)
    except _ERRORS as error:
        # Options that depend on other values belong to the old ones. The chosen one is kept: it may be valid again.
        emptied: dict[str, Any] = {
            c.name: {"choices": []} for c in tab.controls if isinstance(c, Choice) and c.open_ended
        }
        return View(message(error), "", emptied)
    return replace(view, picture=f'{view.picture}<p class="ghrr-result ghrr-terms">{tab.terms}</p>')


def make_tabs(runs: attention.Models = ()) -> tuple[Tab, ...]:
    """Return all tabs, what one can use them for first. The last one shows the models of ``runs`` or its own."""
    fixed = (records, search, learn, family, matrices, trees, capacity, order, cups, kernels, architectures)
    return (*(module.TAB for module in fixed), attention.make_tab(runs))


def make_page(tabs: Sequence[Tab]) -> gr.Blocks:
    """Assemble the page."""
    page: gr.Blocks
    with gr.Blocks(analytics_enabled=False, title="ghrr playground", delete_cache=_UNUSED_FILES) as page:
        gr.HTML("<h1>ghrr playground</h1>")
        with gr.Tabs(selected=tabs[0].name) as bar:
            parts = [_Part(tab) for tab in tabs]
        outputs = [bar, *(output for part in parts for output in (*part.controls, *part.outputs))]
        restored = page.load(_restore(parts), outputs=outputs, api_visibility="private", **_EVENT)
        restored.then(None, js="() => { window.ghrrRestored = true; }", api_visibility="private")
    return page


class _Part:
    """The components of one tab."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        with gr.Tab(tab.title, id=tab.name) as self.item:
            gr.HTML(f'<p class="ghrr-notice">{tab.notice}</p>')
            with gr.Row():
                with gr.Column(scale=2, min_width=280):
                    self.controls = [_component(control) for control in tab.controls]
                    fail = gr.Button(tab.failure.label, elem_id=f"{tab.name}-failure", size="md")
                    self.state = gr.State(None, time_to_live=3600)
                    # Its value is set by the browser: empty for the tab that gradio selects by itself at the start.
                    restored = gr.Textbox("", visible=False)
                    prepare = gr.Button(
                        tab.preparation.label if tab.preparation else "",
                        visible=tab.preparation is not None,
                        elem_id=f"{tab.name}-prepare",
                        variant="primary",
                    )
                with gr.Column(scale=3, min_width=300, elem_classes="ghrr-show"):
                    self.picture = gr.HTML(elem_id=f"{tab.name}-picture")
                    with gr.Accordion("Show the code", open=False, elem_id=f"{tab.name}-show-code"):
                        self.code = gr.Code(language="python", elem_id=f"{tab.name}-code", interactive=False)
        self.outputs = [self.picture, self.code]
        inputs = [*self.controls, self.state]
        redraw: dict[str, Any] = {"inputs": inputs, "outputs": [*self.controls, *self.outputs], **_EVENT}
        to_address = _address(tab)
        # Text that is pasted with the mouse is a change, but not an input.
        pairs = list(zip(tab.controls, self.controls, strict=True))
        changes = [
            c.change if isinstance(c, gr.Textbox) else c.input for control, c in pairs if not isinstance(control, File)
        ]
        gr.on(changes, self._redraw, **redraw, trigger_mode="always_last", js=to_address, api_name=tab.name)
        for control, component in pairs:
            if isinstance(control, File):
                opened = partial(self._open, control)
                component.input(opened, **redraw, trigger_mode="always_last", js=to_address, api_visibility="private")
        redraw_selected = {**redraw, "inputs": [restored, *inputs]}
        self.item.select(self._select, **redraw_selected, js=_address(tab, selecting=True), api_visibility="private")
        failed = fail.click(self._fail, **redraw, api_visibility="private")
        failed.then(None, inputs, js=to_address, api_visibility="private")
        if tab.preparation is not None:
            prepare.click(
                self._prepare,
                self.controls,
                [self.state, *self.outputs],
                preprocess=False,
                show_progress_on=self.picture,
                concurrency_limit=1,
                api_visibility="private",
            )

    def _prepare(self, progress: gr.Progress = _PROGRESS, *given: Any) -> list[Any]:
        """Do the slow work, and draw its result."""
        values = self._named(given)
        try:
            assert self.tab.preparation is not None
            prepared = self.tab.preparation.run(self.tab.check(values), progress)
        except _ERRORS as error:
            return [gr.skip(), message(error), ""]
        view = show(self.tab, values, prepared)
        return [prepared, view.picture, view.code]

    def _redraw(self, *given: Any) -> list[Any]:
        *values, prepared = given
        return self.set(self._named(values), prepared, written=())

    def _select(self, restored: str, *given: Any) -> list[Any]:
        return self._redraw(*given) if restored else [gr.skip()] * (len(self.controls) + len(self.outputs))

    def _fail(self, *given: Any) -> list[Any]:
        *values, prepared = given
        return self.set({**self._named(values), **self.tab.failure.values}, prepared)

    def _open(self, file: File, *given: Any) -> list[Any]:
        """Draw a new file, with defaults where values belong to the old one."""
        *values, prepared = given
        defaults = {name: self.tab.defaults[name] for name in file.resets}
        return self.set({**self._named(values), **defaults}, prepared, written=file.resets)

    def set(self, values: Values, prepared: Any = None, *, written: Collection[str] | None = None) -> list[Any]:
        """Return the outputs that draw values and put them, or the values of ``written``, into the controls."""
        view = show(self.tab, values, prepared)
        changes = []
        for name in self.tab.defaults:
            own = {"value": values[name]} if written is None or name in written else {}
            changes.append(gr.update(**{**own, **view.updates.get(name, {})}))
        return [*changes, view.picture, view.code]

    def _named(self, values: Sequence[Any]) -> dict[str, Any]:
        return {control.name: value for control, value in zip(self.tab.controls, values, strict=True)}


def _restore(parts: Sequence[_Part]) -> Callable[[gr.Request], list[Any]]:
    """Return a function that sets the tab and the values that the address names."""

    def restore(request: gr.Request) -> list[Any]:
        asked = dict(request.query_params)
        chosen = next((part for part in parts if part.tab.name == asked.get("tab")), parts[0])
        outputs: list[Any] = [gr.Tabs(selected=chosen.tab.name)]
        for part in parts:
            if part is chosen:
                outputs += part.set(_values_of_address(part.tab, asked))
            else:
                outputs += [gr.skip()] * (len(part.controls) + len(part.outputs))
        return outputs

    return restore


def _values_of_address(tab: Tab, asked: Values) -> dict[str, Any]:
    """Return the values in an address; a value that is missing or not valid is replaced by the default."""
    values = tab.defaults
    for control in tab.controls:
        try:
            values[control.name] = control.check(asked[control.name])
        except (KeyError, ValueError):
            continue
    return values


def _component(control: Control) -> Any:
    if isinstance(control, Slider):
        return gr.Slider(control.low, control.high, control.default, step=control.step, label=control.label)
    if isinstance(control, Choice):
        options = list(control.options) or [control.default]
        kind = gr.Radio if len(options) <= 4 else gr.Dropdown
        return kind(options, value=control.default, label=control.label)
    if isinstance(control, Drawing):
        return sketch_pad(control)
    if isinstance(control, File):
        return file_drop(control)
    if isinstance(control, Steps):
        return step_buttons(control)
    return gr.Textbox(control.default, label=control.label, lines=control.lines, max_lines=max(8, control.lines))


def _address(tab: Tab, *, selecting: bool = False) -> str:
    """Return a function in JavaScript that writes the values to the address, and returns them.

    Files are left out. It writes nothing until the values of the opened address are restored, because gradio selects
    the first tab while it builds the page. With ``selecting``, the first argument reports to the server whether they
    were restored.
    """
    names = json.dumps([None if isinstance(control, File) else control.name for control in tab.controls])
    return f"""(...given) => {{
        const values = given.slice({int(selecting)});
        if ({int(selecting)}) given[0] = window.ghrrRestored ? "yes" : "";
        if (!window.ghrrRestored) return given;
        const old = new URLSearchParams(location.search), now = new URLSearchParams();
        if (old.has("__theme")) now.set("__theme", old.get("__theme"));
        now.set("tab", {json.dumps(tab.name)});
        {names}.forEach((name, i) => {{
            if (name && String(values[i]).length <= {_MAX_ADDRESS}) now.set(name, values[i]);
        }});
        history.replaceState(null, "", "?" + now);
        return given;
    }}"""
