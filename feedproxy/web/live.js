// Keeps an admin page up to date: it requests the page again every five seconds, with If-None-Match, and replaces the
// parts that have changed. Without this script the page works the same and stays as it was loaded.
"use strict";
(() => {
  const INTERVAL = 5000;
  const sign = document.getElementById("live");
  let timer = 0, busy = false, tag = "";

  const say = (text, on) => {
    if (!sign) return;
    sign.hidden = false;
    sign.textContent = text;
    sign.classList.toggle("on", on);
  };

  const inUse = (part) => {
    const chosen = document.getSelection();
    return part.contains(document.activeElement) && document.activeElement !== document.body ||
      chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode);
  };

  // Returns whether every changed part has been replaced; a part in use is left for the next request.
  const replaceParts = (page) => {
    let complete = true;
    document.title = page.title;
    for (const part of document.querySelectorAll("[data-mood]")) {
      const fresh = page.getElementById(part.id);
      if (fresh) part.className = fresh.className;
    }
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(part.id);
      if (!fresh || fresh.innerHTML === part.dataset.seen) continue;
      if (inUse(part)) { complete = false; continue; }
      const seen = fresh.innerHTML;
      const open = [...part.querySelectorAll("details")].map((details) => details.open);
      part.replaceChildren(...fresh.childNodes);
      part.querySelectorAll("details").forEach((details, index) => { details.open = open[index] || false; });
      part.dataset.seen = seen;
    }
    return complete;
  };

  const refresh = async () => {
    clearTimeout(timer);
    if (busy || document.hidden) return;
    busy = true;
    try {
      const address = new URL(location.href);
      address.searchParams.delete("done");
      const headers = tag ? { Accept: "text/html", "If-None-Match": tag } : { Accept: "text/html" };
      const response = await fetch(address, { headers, cache: "no-store" });
      if (response.ok) {
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        tag = replaceParts(page) ? response.headers.get("ETag") || "" : "";
      }
      const live = response.ok || response.status === 304;
      say(live ? "live" : "not live", live);
    } catch {
      say("not live", false);
    }
    busy = false;
    if (!document.hidden) timer = setTimeout(refresh, INTERVAL);
  };

  document.addEventListener("visibilitychange", refresh);
  addEventListener("pageshow", refresh);
})();
