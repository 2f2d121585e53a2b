// Explanations beside a word or a disabled button: for a mouse that rests on it, the keyboard's focus, and a finger.
"use strict";
(() => {
  const bubble = document.getElementById("tip");
  const GAP = 4; // pixels
  let owner;

  function show(wanted) {
    owner = wanted;
    bubble.textContent = zoned(owner.dataset.tip);
    if (!bubble.matches(":popover-open")) bubble.showPopover();
    const at = owner.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = bubble;
    const below = at.bottom + GAP + height <= innerHeight;
    bubble.style.left = `${Math.max(GAP, Math.min(at.left, document.documentElement.clientWidth - width - GAP))}px`;
    bubble.style.top = `${below ? at.bottom + GAP : Math.max(GAP, at.top - GAP - height)}px`;
  }
  function hide() {
    owner = undefined;
    if (bubble.matches(":popover-open")) bubble.hidePopover();
    bubble.textContent = "";
  }
  const follow = (event) => {
    const wanted = event.target.closest?.("[data-tip]");
    if (wanted) show(wanted);
    else if (owner && !bubble.contains(event.target)) hide();
  };
  for (const name of ["mouseover", "focusin", "click"]) document.addEventListener(name, follow);
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  document.addEventListener("scroll", () => { if (owner) show(owner); }, true);
  document.addEventListener("refreshed", () => { // the explanation may have changed, or its word may be gone
    if (owner?.isConnected && owner.dataset.tip) bubble.textContent = zoned(owner.dataset.tip);
    else hide();
  });
})();
