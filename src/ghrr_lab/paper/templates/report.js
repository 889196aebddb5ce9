// Filter by verdict, enlarged figures, and a closed list of contents on small screens.
// Without JavaScript the page shows everything.
"use strict";

const filter = document.getElementById("filter");
const contents = document.getElementById("contents");
const dialog = document.getElementById("enlarged");

function applyFilter() {
  const selected = [...filter.querySelectorAll("input:checked")].map((box) => box.value);
  for (const element of document.querySelectorAll("[data-verdicts]")) {
    const verdicts = element.dataset.verdicts.split(",");
    element.hidden = selected.length > 0 && !selected.some((verdict) => verdicts.includes(verdict));
  }
  const claims = [...document.querySelectorAll("article")];
  const shown = claims.filter((claim) => !claim.hidden).length;
  filter.querySelector("[role=status]").textContent = `${shown} of ${claims.length} claims`;
}

filter.hidden = false;
filter.addEventListener("change", applyFilter);
applyFilter();

for (const figure of document.querySelectorAll("figure")) {
  const [image, button] = [figure.querySelector("img"), figure.querySelector("button")];
  const enlarge = () => {
    Object.assign(dialog.querySelector("img"), { src: image.src, alt: image.alt });
    dialog.showModal();
  };
  button.hidden = false;
  button.addEventListener("click", enlarge);
  image.addEventListener("click", enlarge);
}
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close(); // outside the figure
});

const narrow = matchMedia("(max-width: 64rem)"); // as in the style sheet
const foldContents = () => { contents.open = !narrow.matches; };
narrow.addEventListener("change", foldContents);
contents.querySelector("ol").addEventListener("click", foldContents);
foldContents();
