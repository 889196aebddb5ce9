"""Kernels: the similarity of encoded numbers, with a kernel per diagonal entry and a rotation that adapts."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure

import ghrr
from ghrr.encoding import SPECTRA, AdaptiveEncoder
from ghrr_lab.paper.style import BLUE, GREY, ORANGE, RED
from ghrr_lab.play.pictures import draw_figure, paragraph
from ghrr_lab.play.tab import Choice, Failure, Slider, Tab, Values, View

MAX_M = 3
CENTRES = (-2.0, 2.0)
_START = {1: ("rbf", 1.0), 2: ("rbf", 0.3), 3: ("laplace", 1.0)}


def draw(values: Values, _: Any = None) -> View:
    """Draw the similarity of every number with -2 and with 2, measured and by theory."""
    dim, m, speed = values["dim"], values["m"], values["speed"]
    kernels = [values[f"kernel{k}"] for k in range(1, m + 1)]
    bandwidths = [values[f"bandwidth{k}"] for k in range(1, m + 1)]
    linear = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(linear.weight, speed)
    network = torch.nn.Sequential(torch.nn.ReLU(), linear)
    encoder = AdaptiveEncoder(
        ghrr.Space(dim, m), 1, latent=1, network=network, kernel=kernels, bandwidth=[[b] for b in bandwidths]
    )
    x = torch.linspace(-4, 4, 161)[:, None]
    centres = torch.tensor(CENTRES)[:, None]
    with torch.inference_mode():
        measured = ghrr.pairwise_similarity(encoder(centres), encoder(x))
        expected = encoder.kernel(centres[:, None], x)
    error = float((measured - expected).square().mean().sqrt())

    def figure(figure: Figure) -> None:
        axis = figure.subplots()
        for row, (colour, marker) in enumerate(((BLUE, "o"), (ORANGE, "s"))):
            axis.plot(x.flatten(), expected[row], color=colour, lw=1.5, label=f"theory, with {CENTRES[row]:g}")
            points = measured[row, ::4]
            axis.plot(x.flatten()[::4], points, marker, color=colour, ms=4, mfc="none", label="measured")
        axis.axhline(0, color=GREY, lw=0.8)
        axis.axvline(0, color=RED if speed else GREY, lw=0.8, ls=":")
        axis.set(xlabel="number x", ylabel="similarity", ylim=(-0.45, 1.08))
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

    summary = f"root mean square error of {error:.3f}"
    code = f"""\
import torch
import ghrr
from ghrr.encoding import AdaptiveEncoder

# The rotation depends on the number: u(x) = {speed} max(x, 0).
linear = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.constant_(linear.weight, {speed})
network = torch.nn.Sequential(torch.nn.ReLU(), linear)
encoder = AdaptiveEncoder(
    ghrr.Space(dim={dim}, m={m}),
    n_features=1,
    latent=1,
    network=network,
    kernel={kernels},
    bandwidth={[[b] for b in bandwidths]},
)
x = torch.linspace(-4, 4, 161)[:, None]
centres = torch.tensor([[{CENTRES[0]}], [{CENTRES[1]}]])
with torch.inference_mode():
    measured = ghrr.pairwise_similarity(encoder(centres), encoder(x))
    theory = encoder.kernel(centres[:, None], x)
print(f"root mean square error of {{(measured - theory).square().mean().sqrt():.3f}}")
"""
    noise = f"Measured and theory differ by a {summary}; at most about {1 / (2 * dim * m) ** 0.5:.3f} is expected."
    place = " Right of 0 the rotation changes with x, so the kernel is narrower there." if speed else ""
    description = f"Similarity of numbers with {CENTRES[0]:g} and {CENTRES[1]:g} for dim {dim}, m {m}: {summary}."
    hidden = {f"{name}{k}": {"visible": k <= m} for k in range(1, MAX_M + 1) for name in ("kernel", "bandwidth")}
    picture = draw_figure(figure, height=3.5, description=description)
    return View(picture + paragraph(noise + place), code, updates=hidden)


def _entry(k: int) -> tuple[Choice, Slider]:
    kernel, bandwidth = _START[k]
    return (
        Choice(f"kernel{k}", f"kernel of diagonal entry {k}", tuple(SPECTRA), kernel),
        Slider(f"bandwidth{k}", f"bandwidth of diagonal entry {k}", 0.1, 3.0, bandwidth, 0.1),
    )


TAB = Tab(
    name="kernels",
    title="Kernels",
    notice="Numbers become vectors: near numbers are similar, far ones are not. You choose how fast similarity falls "
    "with distance, even differently for large and small numbers.",
    controls=(
        Slider("m", "m, number of diagonal entries", 1, MAX_M, 2),
        Slider("dim", "dim, number of slots", 10, 500, 300, 10),
        Slider("speed", "change of the rotation with x > 0", 0.0, 4.0, 0.0, 0.1),
        *(control for k in range(1, MAX_M + 1) for control in _entry(k)),
    ),
    draw=draw,
    failure=Failure("Make it fail: 10 slots are too few", {"dim": 10}),
    terms="The similarity of two encoded numbers is the mean of the kernels of the m diagonal entries of a slot, each "
    "with its bandwidth. A rotation that changes with the number multiplies it by a factor below 1 and so narrows it.",
)
