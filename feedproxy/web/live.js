// Keeps a page of the operator's up to date: told that something is new, it asks for itself again and takes over what
// has changed. Without it a page works the same and is as it was when it was loaded.
"use strict";
(() => {
  const sign = document.getElementById("live");
  let source = null, later = 0, busy = false, again = false, before = false;

  const say = (words, on) => {
    if (!sign) return;
    sign.hidden = false;
    sign.textContent = words;
    sign.classList.toggle("on", on);
  };

  const inUse = (part) => {
    const chosen = document.getSelection();
    return part.contains(document.activeElement) && document.activeElement !== document.body ||
      chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode);
  };

  const take = (page) => {
    document.title = page.title;
    for (const part of document.querySelectorAll("[data-mood]")) {
      const fresh = page.getElementById(part.id);
      if (fresh) part.className = fresh.className;
    }
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(part.id);
      if (!fresh || fresh.innerHTML === part.dataset.seen) continue;
      if (inUse(part)) { again = true; continue; }
      const seen = fresh.innerHTML;
      const open = [...part.querySelectorAll("details")].map((each) => each.open);
      part.replaceChildren(...fresh.childNodes);
      part.querySelectorAll("details").forEach((each, at) => { each.open = open[at] || false; });
      part.dataset.seen = seen;
    }
  };

  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    again = false;
    try {
      const address = new URL(location.href);
      address.searchParams.delete("done");
      const answer = await fetch(address, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (answer.ok) take(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { /* the proxy is away; the stream says so, too */ }
    busy = false;
    if (again) setTimeout(refresh, 3000);
  };

  const begin = () => {
    clearTimeout(later);
    if (source || document.hidden) return;
    source = new EventSource("/events");
    source.onopen = () => {
      say("live", true);
      if (before) refresh(); // what was told meanwhile is not told again
      before = true;
    };
    source.addEventListener("changed", refresh);
    source.onerror = () => {
      const over = source.readyState === EventSource.CLOSED;
      say("not live", false);
      if (over) { end(); later = setTimeout(begin, 30000); }
    };
  };

  const end = () => {
    if (source) source.close();
    source = null;
  };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) end();
    else begin();
  });
  addEventListener("pagehide", end);
  addEventListener("pageshow", begin);
})();
