// One tip for the whole page: definitions of words ([data-term]) and the texts of marks ([data-tip]), on hover and on focus.

const tip = $("#tip");
const tipped = target => target instanceof Element ? target.closest("[data-term], [data-tip]") : null;
const textOf = element => element.dataset.term ? `${element.dataset.term}: ${D.glossary[element.dataset.term]}` : element.getAttribute("aria-label");

function showTip(element, x, y) {
  tip.textContent = textOf(element);
  tip.showPopover();
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - width - 8)) + "px";
  tip.style.top = (y + 18 + height > innerHeight ? Math.max(8, y - height - 12) : y + 18) + "px";
}
function hideTip() {
  if (tip.matches(":popover-open")) tip.hidePopover();
}
document.addEventListener("pointerover", event => {
  const element = tipped(event.target);
  if (element) showTip(element, event.clientX, event.clientY);
  else hideTip();
});
document.addEventListener("focusin", event => {
  const element = tipped(event.target);
  if (!element) return hideTip();
  const box = element.getBoundingClientRect();
  if (element.dataset.term) element.setAttribute("aria-describedby", "tip");
  showTip(element, box.left, box.bottom - 10);
});
// To focus an element may scroll to it: its tip goes with it. The tip of the mouse does not.
addEventListener("scroll", () => {
  const element = tipped(document.activeElement);
  if (!element || !tip.matches(":popover-open") || tip.textContent !== textOf(element)) return hideTip();
  const box = element.getBoundingClientRect();
  showTip(element, box.left, box.bottom - 10);
}, { passive: true });
document.addEventListener("focusout", hideTip);
document.addEventListener("keydown", event => { if (event.key === "Escape") hideTip(); });

for (const [word, meaning] of Object.entries(D.glossary)) $("#glossary").append(make("dt", {}, word), make("dd", {}, meaning));
for (const name of NAMES) $("#legend").append(make("span", { style: `--colour:${byName[name].colour}` }, label(name)));
