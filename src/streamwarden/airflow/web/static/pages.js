// What the pages of Streamwarden do in the browser: the theme of Airflow, its frame, fresh parts, and filters.
"use strict";
const prefix = document.body.dataset.prefix;
const airflow = document.body.dataset.airflow;
const STALE_AFTER = 10; // seconds
const LOGGED_OUT = "you are no longer logged in.";

// The theme that the person chose in Airflow; outside Airflow's frame that of the system.
const TOKENS = { back: "bg", text: "fg", dim: "fg-muted", line: "border-emphasized" }; // ours -> that of Airflow
function applyTokens() { // those of the theme that this Airflow was given
  if (parent === window) return;
  const [given, own] = [parent.getComputedStyle(parent.document.documentElement), document.documentElement.style];
  for (const [name, token] of Object.entries(TOKENS)) {
    const value = painted(given.getPropertyValue(`--chakra-colors-${token}`).trim());
    if (value && own.getPropertyValue(`--${name}`) !== value) own.setProperty(`--${name}`, value);
  }
  const font = given.getPropertyValue("--chakra-fonts-body").trim();
  if (font) own.setProperty("--font", font);
}
const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
function painted(value) { // as a colour that every script can read; empty for what is none
  if (!value || !CSS.supports("color", value)) return "";
  canvas.fillStyle = value;
  canvas.fillRect(0, 0, 1, 1);
  return `#${[...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}
function applyTheme() {
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* no storage */ }
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const theme = dark ? "dark" : "light";
  if (document.documentElement.dataset.theme !== theme) {
    document.documentElement.dataset.theme = theme;
    applyTokens();
    document.dispatchEvent(new CustomEvent("theme"));
  }
}
applyTheme();
addEventListener("storage", applyTheme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
if (parent !== window) new MutationObserver(() => { applyTheme(); applyTokens(); }).observe(parent.document.documentElement, { attributes: true });

// Characters that turn the direction of text would let a message show itself as another one: they are shown as codes.
function plain(text) {
  return text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (one) => `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`);
}

// Airflow shows these pages in a frame that may not leave it: links to Airflow's own pages open in the whole window.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-airflow]");
  if (!link || parent === window || event.defaultPrevented) return;
  event.preventDefault();
  openOutside(link.href);
});
function openOutside(href, target = "_self") {
  const outside = parent.document.createElement("a");
  Object.assign(outside, { href, target });
  parent.document.body.append(outside);
  outside.click();
  outside.remove();
}

// Of its frame Airflow's address bar knows only what is loaded: it is told here what changes without that, so that a
// reload and a bookmark keep it. In the tab of a DAG Airflow's address has no place for it; there this link has the
// address, copies it, or opens it if it may not copy.
const here = document.getElementById("here");
const framed = parent !== window ? /^.*?\/plugin\/[^/]+/.exec(parent.location.pathname)?.[0] : undefined;
function addressed() {
  here.href = location.href;
  here.hidden = parent === window;
  if (framed) parent.history.replaceState(parent.history.state, "", `${framed}${location.pathname}${location.search}${location.hash}`);
}
here.href = location.href;
here.hidden = parent === window;
here.addEventListener("click", async (event) => {
  if (!navigator.clipboard) return; // a browser lets only HTTPS and its own machine copy
  event.preventDefault();
  await navigator.clipboard.writeText(here.href).then(() => { here.textContent = "Link copied"; }, () => openOutside(here.href));
});

// Airflow's frame may not print either: there the page opens in a window of its own and is printed there.
function printPage() {
  if (parent === window) return window.print();
  openOutside(`${location.href.split("#")[0]}#print`, "_blank");
}
document.addEventListener("click", (event) => { if (event.target.closest("button[data-print]")) printPage(); });
addEventListener("load", () => { if (location.hash === "#print" && parent === window) window.print(); });

// Airflow's login, which leads back to what the person sees now.
function loginAddress() {
  const back = framed ? parent.location.href : location.href;
  return `${airflow}/api/v2/auth/login?next=${encodeURIComponent(back)}`;
}
for (const link of document.querySelectorAll("a[data-login]")) link.href = loginAddress();

// Parts that refresh themselves. Each one that is too old is marked, and the head of the page says how old and why.
const freshness = new Map(); // part -> {when it was fresh, why it is not}
const note = document.getElementById("stale");
function tellAge() {
  const now = Date.now();
  const old = new Map([...freshness].filter(([part, { at, reason }]) =>
    reason || now - at > 1000 * Math.max(STALE_AFTER, 2 * part.dataset.refresh)));
  for (const part of freshness.keys()) part.classList.toggle("stale", old.has(part));
  note.hidden = !old.size;
  if (note.hidden) return;
  const oldest = Math.min(...[...old.values()].map(({ at }) => at));
  const reasons = [...new Set([...old.values()].map(({ reason }) => reason || "they were not read again in time"))];
  write("stale-age", seconds(now - oldest));
  write("stale-why", reasons.join("; "));
  const login = document.getElementById("login");
  login.hidden = !reasons.includes(LOGGED_OUT);
  login.href = loginAddress();
}
function seconds(milliseconds) {
  return `${Math.round(milliseconds / 1000)}\u00a0s`;
}
function write(id, text) { // a screen reader announces each change
  const place = document.getElementById(id);
  if (place.textContent !== text) place.textContent = text;
}
function address(part) {
  const url = new URL(part.dataset.url || location.href, location.href);
  url.searchParams.set("part", part.id);
  return url.href;
}
async function refresh(part) {
  const url = address(part);
  const asked = freshness.get(part)?.etag;
  let answer;
  let html;
  try {
    answer = await fetch(url, { headers: { Accept: "text/html", ...(asked && shownUrls.get(part) === url ? { "If-None-Match": asked } : {}) } });
    html = await answer.text();
  } catch {
    return fails(part, "Airflow does not answer");
  }
  if (answer.status === 304 && url === address(part)) return isFresh(part, asked);
  if (answer.status === 401) return fails(part, LOGGED_OUT);
  if (!answer.ok) return fails(part, detail(html) || `Airflow answered ${answer.status}`);
  if (url !== address(part)) return; // the person has chosen something else meanwhile
  const focused = document.activeElement?.id;
  const fresh = part.cloneNode(false);
  fresh.innerHTML = html.trimStart(); // rendered on the server, where every text is escaped
  ages(fresh);
  times(fresh);
  if (part.firstChild?.data?.trim() === "") part.firstChild.remove(); // the indent of the template
  adopt(part, fresh);
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus();
  shownUrls.set(part, url);
  isFresh(part, answer.headers.get("ETag"));
  part.dispatchEvent(new CustomEvent("refreshed", { bubbles: true }));
}
const shownUrls = new Map(); // part -> the address of what it shows
function isFresh(part, etag) {
  if (freshness.has(part)) freshness.set(part, { at: Date.now(), reason: "", etag });
  tellAge();
}

// Ages of moments, current to the second without the server: of each `time` its form says `for`, `ago` or `in`.
const ahead = 1000 * document.body.dataset.now - Date.now(); // of the server's clock
function ages(place) {
  const now = (Date.now() + ahead) / 1000;
  for (const each of place.querySelectorAll("time[data-at]")) {
    const { at, form } = each.dataset;
    if (!each.title.endsWith(timeZone())) each.title = SHAPES.named(Number(at));
    const text = form === "in" ? (at - now < 1 ? "now" : `in ${lasting(at - now)}`)
      : `${form === "for" ? "for " : ""}${lasting(Math.max(0, now - at))}${form === "ago" ? " ago" : ""}`;
    if (each.textContent !== text) each.textContent = text;
  }
}
function lasting(duration) { // as `units.format_duration`, in whole seconds
  const whole = Math.round(duration);
  for (const [big, small, size, part] of [["d", "h", 86400, 3600], ["h", "m", 3600, 60], ["m", "s", 60, 1]]) {
    if (whole < size) continue;
    const rest = Math.floor((whole % size) / part);
    return `${Math.floor(whole / size)}${big}${rest ? `\u00a0${rest}${small}` : ""}`;
  }
  return seconds(1000 * whole);
}
ages(document);
setInterval(() => ages(document), 1000);

// A part that refreshes itself shows what it had; one that a person has just opened has nothing yet.
function fails(part, reason) {
  if (!freshness.has(part)) {
    part.textContent = `Not read: ${reason}`;
    return;
  }
  freshness.get(part).reason = reason;
  tellAge();
}
function detail(text) {
  try { return JSON.parse(text).detail; } catch { return ""; }
}
// Changes only what differs: the focus, a selected text, a tooltip and what was scrolled or opened stay as they are.
function adopt(old, fresh) {
  const has = [...fresh.childNodes];
  const ids = new Set(has.map(({ id }) => id).filter(Boolean)); // what has an id keeps its element, wherever it moves
  has.forEach((each, at) => {
    const kept = each.id && [...old.children].find(({ id }) => id === each.id);
    while (kept && old.childNodes[at] !== kept && !ids.has(old.childNodes[at].id)) old.childNodes[at].remove();
    if (kept && old.childNodes[at] !== kept) old.insertBefore(kept, old.childNodes[at]);
    const had = old.childNodes[at];
    if (!had || (!alike(had, each) && ids.has(had.id))) old.insertBefore(each, had ?? null);
    else if (!alike(had, each)) had.replaceWith(each);
    else if (each.nodeType !== Node.ELEMENT_NODE) { if (had.data !== each.data) had.data = each.data; }
    else {
      attributes(had, each);
      if (!had.id || !had.dataset.url) adopt(had, each); // what a person opened has its own address, and stays
    }
  });
  [...old.childNodes].slice(has.length).forEach((each) => each.remove());
}
function alike(one, other) {
  return one.nodeName === other.nodeName && one.id === other.id && one.dataset?.stream === other.dataset?.stream;
}
function attributes(old, fresh) {
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
}
for (const part of document.querySelectorAll("[data-refresh]")) {
  freshness.set(part, { at: Date.now(), reason: "" });
  const again = async () => {
    if (part.querySelector("[data-final]")) { // what it shows does not change any more
      freshness.delete(part);
      return;
    }
    if (!document.hidden) await refresh(part);
    setTimeout(again, 1000 * part.dataset.refresh);
  };
  setTimeout(again, 1000 * part.dataset.refresh);
}
function refreshAll() {
  for (const part of freshness.keys()) refresh(part);
}
setInterval(tellAge, 2000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refreshAll(); });
document.addEventListener("toggle", ({ target }) => {
  if (target.open && target.matches("details[data-url]")) refresh(target.querySelector("[id]"));
}, true); // such an event does not bubble

// A filter changes the address, so that a link to what is seen can be shared, and Back undoes it. What is typed into one
// field is one step.
const filter = document.querySelector("[data-filter]");
let typing; // the field whose step is the newest one
function show(search, field) {
  const step = field && field === typing ? "replaceState" : "pushState";
  typing = field;
  history[step](null, "", `?${search}`);
  addressed();
  refreshAll();
}
addEventListener("popstate", () => {
  typing = undefined;
  if (filter) {
    fill(filter, new URLSearchParams(location.search));
    count();
  }
  addressed();
  refreshAll();
});
function fill(form, asked) { // what the address says
  for (const field of form.elements) {
    if (field.type === "checkbox") field.checked = asked.get(field.name) === field.value;
    else if (field.name) field.value = asked.get(field.name) ?? "";
  }
}
const chosen = () => new URLSearchParams([...new FormData(filter)].filter(([, value]) => value));
// On a small screen the filter is folded, so that the first row is on it. Its head says how much of it is in force.
const filters = document.getElementById("filters");
const roomy = matchMedia("(min-width: 48.01rem)"); // as in pages.css
function fold() { filters.open = roomy.matches; }
function count() {
  const { size } = chosen();
  if (filters) write("active", size ? `(${size} active)` : "");
}
if (filters) {
  roomy.addEventListener("change", fold);
  fold();
}
if (filter) {
  let waiting;
  count();
  const changed = (field) => {
    count();
    const values = chosen();
    const now = new URLSearchParams(location.search);
    for (const kept of ["sort", "descending", "open"]) for (const value of now.getAll(kept)) values.append(kept, value);
    show(values, field?.type === "search" ? field : undefined);
  };
  filter.addEventListener("input", ({ target }) => { clearTimeout(waiting); waiting = setTimeout(changed, 200, target); });
  filter.addEventListener("focusout", () => { typing = undefined; });
  filter.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); changed(); });
  const asked = new URLSearchParams(location.search);
  if ([...chosen()].some(([name, value]) => asked.get(name) !== value)) changed(); // typed before this was loaded
}
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-part]");
  if (!link) return;
  event.preventDefault();
  show(new URL(link.href).search.slice(1));
});
