"use strict";
// Pages work without this. It asks for the same page again, now and then, and takes over what is
// marked as live; never under the hands of somebody who is using it.
(() => {
  const everyMs = 5000;
  const live = () => document.querySelectorAll("[data-live]");
  if (!live().length) return;
  const said = document.getElementById("live");
  const inUse = (part) => part.contains(document.activeElement) || part.querySelector("details[open]");

  async function refresh() {
    if (document.hidden) return;
    let answer;
    try {
      answer = await fetch(location.href, { redirect: "manual", credentials: "same-origin" });
    } catch {
      said.textContent = " No answer; what is shown may be old.";
      return;
    }
    if (!answer.ok) {
      said.textContent = " Not updated any more: load the page again.";
      return;
    }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of live()) {
      const next = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
      if (next && !inUse(part) && next.innerHTML !== part.innerHTML) part.replaceWith(next);
    }
    if (said.textContent) said.textContent = "";
  }

  setInterval(refresh, everyMs);
})();
