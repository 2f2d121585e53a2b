// What the pages of Streamwarden do in the browser: the theme of Airflow, fresh parts, filters, and actions.
"use strict";
const prefix = document.body.dataset.prefix;
const airflow = document.body.dataset.airflow;
const STALE_AFTER = 10; // seconds

// The theme that the person chose in Airflow; outside Airflow's frame that of the system.
function applyTheme() {
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* no storage */ }
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const theme = dark ? "dark" : "light";
  if (document.documentElement.dataset.theme !== theme) {
    document.documentElement.dataset.theme = theme;
    document.dispatchEvent(new CustomEvent("theme"));
  }
}
applyTheme();
addEventListener("storage", applyTheme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
if (parent !== window) new MutationObserver(applyTheme).observe(parent.document.documentElement, { attributes: true });

// Airflow shows these pages in a frame that may not leave it: links to Airflow's own pages open in the whole window.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-airflow]");
  if (!link || parent === window) return;
  event.preventDefault();
  const outside = parent.document.createElement("a");
  outside.href = link.href;
  parent.document.body.append(outside);
  outside.click();
  outside.remove();
});

// Airflow's frame may not print either: there the page opens in a window of its own and is printed there.
function printPage() {
  if (parent === window) return window.print();
  const outside = parent.document.createElement("a");
  outside.href = `${location.href.split("#")[0]}#print`;
  outside.target = "_blank";
  parent.document.body.append(outside);
  outside.click();
  outside.remove();
}
document.addEventListener("click", (event) => { if (event.target.closest("button[data-print]")) printPage(); });
addEventListener("load", () => { if (location.hash === "#print" && parent === window) window.print(); });

// Parts that refresh themselves. A part that cannot be refreshed is marked as old, with the reason.
let freshAt = Date.now();
const note = document.getElementById("stale");
function tellAge(reason) {
  const age = Math.round((Date.now() - freshAt) / 1000);
  const old = age > STALE_AFTER || Boolean(reason);
  note.hidden = !old;
  note.textContent = old ? `Not updated for ${age} s${reason ? `: ${reason}` : ""}` : "";
  document.body.classList.toggle("stale", old);
}
function address(part) {
  const url = new URL(part.dataset.url || location.href, location.href);
  url.searchParams.set("part", part.id);
  return url.href;
}
async function refresh(part) {
  const url = address(part);
  let answer;
  let html;
  try {
    answer = await fetch(url, { headers: { Accept: "text/html" } });
    html = await answer.text();
  } catch {
    return fails(part, "Airflow does not answer");
  }
  if (answer.status === 401) return fails(part, "you are no longer logged in; reload the page");
  if (!answer.ok) return fails(part, detail(html) || `Airflow answered ${answer.status}`);
  if (url !== address(part)) return; // the person has chosen something else meanwhile
  const focused = document.activeElement?.id;
  const fresh = part.cloneNode(false);
  fresh.innerHTML = html.trimStart(); // rendered on the server, where every text is escaped
  if (part.firstChild?.data?.trim() === "") part.firstChild.remove(); // the indent of the template
  adopt(part, fresh);
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus();
  freshAt = Date.now();
  tellAge("");
  part.dispatchEvent(new CustomEvent("refreshed", { bubbles: true }));
}
// A part that refreshes itself shows what it had; one that a person has just opened has nothing yet.
function fails(part, reason) {
  if ("refresh" in part.dataset) tellAge(reason);
  else part.textContent = `Not read: ${reason}`;
}
function detail(text) {
  try { return JSON.parse(text).detail; } catch { return ""; }
}
// Changes only what differs: the focus, a selected text, a tooltip and what was scrolled or opened stay as they are.
function adopt(old, fresh) {
  const has = [...fresh.childNodes];
  const ids = new Set(has.map(({ id }) => id).filter(Boolean)); // what has an id keeps its element, wherever it moves
  has.forEach((each, at) => {
    while (ids.has(each.id) && old.childNodes[at]?.id && !ids.has(old.childNodes[at].id)) old.childNodes[at].remove();
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
  const again = async () => {
    if (part.querySelector("[data-final]")) return; // what it shows does not change any more
    if (!document.hidden) await refresh(part);
    setTimeout(again, 1000 * part.dataset.refresh);
  };
  setTimeout(again, 1000 * part.dataset.refresh);
}
setInterval(() => tellAge(note.hidden ? "" : note.textContent.split(": ")[1] || ""), 2000);
document.addEventListener("toggle", ({ target }) => {
  if (target.open && target.matches("details[data-url]")) refresh(target.querySelector("[id]"));
}, true); // such an event does not bubble

// A filter changes the address, so that a link to what is seen can be shared.
const filter = document.querySelector("[data-filter]");
function show(search) {
  history.replaceState(null, "", `?${search}`);
  for (const part of document.querySelectorAll("[data-refresh]")) refresh(part);
}
if (filter) {
  let waiting;
  const changed = () => {
    const values = new URLSearchParams([...new FormData(filter)].filter(([, value]) => value));
    const now = new URLSearchParams(location.search);
    for (const kept of ["sort", "descending"]) if (now.has(kept)) values.set(kept, now.get(kept));
    show(values);
  };
  filter.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(changed, 200); });
  filter.addEventListener("submit", (event) => { event.preventDefault(); changed(); });
}
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-part]");
  if (!link) return;
  event.preventDefault();
  show(new URL(link.href).search.slice(1));
});

// Actions: ask once, trigger the DAG through Airflow's own API as the logged-in user, follow the run to its end.
const dialog = document.getElementById("confirm");
const say = (text) => { document.getElementById("confirm-result").textContent = text; };
async function call(url, method, body) {
  const answer = await fetch(url, {
    method,
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(typeof found.detail === "string" ? found.detail : `Airflow answered ${answer.status}`);
  return found;
}
async function trigger(dag, conf) {
  const runs = `${airflow}/api/v2/dags/${encodeURIComponent(dag)}/dagRuns`;
  let run = await call(runs, "POST", { logical_date: null, conf });
  while (run.state === "queued" || run.state === "running") {
    say(`${dag} is ${run.state} …`);
    await new Promise((done) => setTimeout(done, 1000));
    run = await call(`${runs}/${encodeURIComponent(run.dag_run_id)}`, "GET");
  }
  return run.state === "success" ? "Done." : `${dag} ended as ${run.state}; its log in Airflow says why.`;
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-action]");
  if (!button) return;
  const { title, text, dag, url } = button.dataset;
  const wantsReason = "reason" in button.dataset;
  const needsReason = wantsReason && button.dataset.reason !== "optional";
  document.getElementById("confirm-title").textContent = title;
  document.getElementById("confirm-text").textContent = text;
  document.getElementById("confirm-reason").hidden = !wantsReason;
  const field = dialog.querySelector("input");
  field.value = "";
  field.required = needsReason;
  const yes = document.getElementById("confirm-yes");
  yes.textContent = button.textContent;
  yes.disabled = false;
  const no = document.getElementById("confirm-no");
  no.textContent = "Cancel";
  say("");
  yes.onclick = async (click) => {
    click.preventDefault();
    if (needsReason && !field.reportValidity()) return;
    yes.disabled = true;
    no.textContent = "Close"; // what was asked for goes on
    const conf = JSON.parse(button.dataset.conf || "{}");
    if (wantsReason) conf.reason = field.value;
    try {
      say(dag ? await trigger(dag, conf) : (await call(`${prefix}${url}`, "POST", conf), "Done."));
    } catch (error) {
      say(`It failed: ${error.message}`);
      yes.disabled = false;
      no.textContent = "Cancel";
    }
    for (const part of document.querySelectorAll("[data-refresh]")) refresh(part);
  };
  dialog.showModal();
});

// A form that is sent as JSON; empty fields are left out.
document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-post]");
  if (!form) return;
  event.preventDefault();
  const said = form.querySelector(".said");
  const values = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
  try {
    await call(`${prefix}${form.dataset.post}`, "POST", values);
    said.textContent = "Done.";
  } catch (error) {
    said.textContent = `It failed: ${error.message}`;
  }
  for (const part of document.querySelectorAll("[data-refresh]")) refresh(part);
});
