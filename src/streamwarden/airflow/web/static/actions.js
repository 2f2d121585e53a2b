// What people do on the pages: a button asks once, Airflow's own API runs the DAG as the logged-in user, and the page
// follows the run to its result.
"use strict";
const dialog = document.getElementById("confirm");
const field = dialog.querySelector("input");
const yes = document.getElementById("confirm-yes");
const no = document.getElementById("confirm-no");
let asked; // the action that the dialog is about

// Where an action says how it goes: in its dialog, and in a line of the page once the dialog is closed or about another.
function speaker(title) {
  const mine = {};
  let line;
  mine.inDialog = () => asked === mine && dialog.open;
  mine.say = (given, ...ways) => {
    const text = plain(given);
    const place = mine.inDialog() ? document.getElementById("confirm-result") : (line ??= outcome(title));
    const said = [text, ...ways.filter(Boolean).map((way) => way.href ?? way.text)].join(" ");
    if (place.dataset.said === said) return; // a screen reader announces each change
    place.dataset.said = said;
    place.replaceChildren(text, ...ways.filter(Boolean).flatMap((way) => [" ", way.act ? presser(way, mine.say) : anchor(way)]));
  };
  return mine;
}
function outcome(title) {
  const [line, head, text, close] = ["div", "b", "span", "button"].map((name) => document.createElement(name));
  line.className = "note outcome";
  head.textContent = title;
  Object.assign(close, { type: "button", textContent: "Hide" });
  close.addEventListener("click", () => line.remove());
  line.append(head, " ", text, " ", close);
  document.getElementById("outcomes").append(line);
  return text;
}
function presser({ text, act }, say) { // a button that does something about what is said beside it
  const made = document.createElement("button");
  Object.assign(made, { type: "button", textContent: text });
  made.addEventListener("click", () => act().catch((error) => say(`It failed: ${error.message}`)));
  return made;
}
function anchor({ text, href, outside }) {
  const made = document.createElement("a");
  Object.assign(made, { href, textContent: text });
  if (outside) made.dataset.airflow = "";
  return made;
}

async function call(url, method, body) {
  const answer = await fetch(url, {
    method,
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  }).catch(() => { throw new Error("Airflow does not answer"); });
  const found = await answer.json().catch(() => ({}));
  const { status } = answer;
  if (status === 401) throw Object.assign(new Error(LOGGED_OUT), { status, way: { text: "Log in and come back", href: loginAddress(), outside: true } });
  if (!answer.ok) throw Object.assign(new Error(typeof found.detail === "string" ? found.detail : `Airflow answered ${status}`), { status });
  return found;
}

// Airflow answers 500 if two of its requests wait for one another's lock of SQLite. This asks again, under the run's own
// id, so that no second run begins.
async function begin(path, conf) {
  const dag_run_id = `manual__${new Date().toISOString()}_${Math.random().toString(36).slice(2)}`;
  const ask = () => call(`${path}/dagRuns`, "POST", { dag_run_id, logical_date: null, conf });
  const after = (status, next) => (error) => { if (error.status === status) return next(); throw error; };
  const found = () => call(`${path}/dagRuns/${encodeURIComponent(dag_run_id)}`, "GET");
  return ask().catch(after(500, ask)).catch(after(500, ask)).catch(after(409, found));
}

const pathOf = (dag) => `${airflow}/api/v2/dags/${encodeURIComponent(dag)}`;
const isPaused = async (dag) => (await call(pathOf(dag), "GET").catch(() => ({}))).is_paused === true;
const unpause = (dag) => call(`${pathOf(dag)}?update_mask=is_paused`, "PATCH", { is_paused: false });

// A run of a DAG, from its request to its result.
async function trigger(dag, conf, say) {
  const path = pathOf(dag);
  let run = await begin(path, conf);
  while (run.state === "queued" || run.state === "running") {
    say(...await progress(path, dag, run));
    await new Promise((done) => setTimeout(done, 1000));
    const unclear = (error) => ({ ...run, unclear: error.message });
    const gone = (error) => (error.status === 404 ? { ...run, state: "cancelled" } : unclear(error));
    run = await call(`${path}/dagRuns/${encodeURIComponent(run.dag_run_id)}`, "GET").catch(gone);
  }
  if (run.state === "cancelled") return say("The run was cancelled before it began.");
  say(...await result(dag, run));
}
async function progress(path, dag, run) {
  if (run.unclear) return [`${dag} was started, but how it goes cannot be read: ${run.unclear}`];
  if (run.state === "queued" && await isPaused(dag)) {
    const unpausing = { text: "Unpause", act: () => unpause(dag) };
    const cancelling = { text: "Cancel the run", act: () => call(`${path}/dagRuns/${encodeURIComponent(run.dag_run_id)}`, "DELETE") };
    const open = { text: "Open the DAG", href: `${airflow}/dags/${dag}`, outside: true };
    return [`${dag} waits: the DAG is paused in Airflow. The run begins as soon as somebody unpauses it.`, unpausing, cancelling, open];
  }
  if (await waitsForApproval(path, run)) {
    const href = `${airflow}/dags/${dag}/runs/${encodeURIComponent(run.dag_run_id)}/required_actions`;
    return [`${dag} waits for a person’s approval in Airflow.`, { text: "Answer it", href, outside: true }];
  }
  const drill = await drillOf(dag, run);
  return [`${dag} is ${run.state} …`, drill && report(drill, "Watch it")];
}
async function result(dag, run) {
  const drill = await drillOf(dag, run);
  if (drill) return [`${drill.verdict}${drill.reason ? `: ${drill.reason}` : ""}.`, report(drill, "Read the report")];
  const note = run.note ? `: ${run.note}` : "";
  if (run.state === "success") return [`Done${note}.`];
  const href = `${airflow}/dags/${dag}/runs/${encodeURIComponent(run.dag_run_id)}`;
  return [`${dag} ended as ${run.state}${note}.`, { text: "Its log says why", href, outside: true }];
}
async function waitsForApproval(path, run) {
  if (run.state !== "running") return false;
  const url = `${path}/dagRuns/${encodeURIComponent(run.dag_run_id)}/hitlDetails?response_received=false&state=awaiting_input&state=deferred`;
  return (await call(url, "GET").catch(() => ({}))).total_entries > 0;
}
const report = (drill, text) => ({ text, href: `${prefix}/drills/${drill.run_id}` });
async function drillOf(dag, run) { // the drill that a run of its DAG is, once it has begun
  if (!dag.startsWith("drill_")) return null;
  const query = new URLSearchParams({ drill: dag.slice("drill_".length), dag_run: run.dag_run_id });
  const found = await call(`${prefix}/api/v1/drills?${query}`, "GET").catch(() => []);
  return found[0] ?? null;
}

// What an action asks for in its dialog: each field is {name, label, type}, options of a choice, and attributes.
const fieldsOf = () => [...document.querySelectorAll("#confirm-fields [name]")];
function row({ label, type = "text", options = [], ...more }) {
  const control = document.createElement({ lines: "textarea", choice: "select" }[type] ?? "input");
  if (type === "choice") control.append(...options.map((option) => new Option(option)));
  const given = Object.entries({ type, autocomplete: "off", ...more });
  for (const [name, value] of given) if (value !== null && value !== false) control.setAttribute(name, value === true ? "" : value);
  if (type === "lines") Object.assign(control, { rows: 2, maxLength: 2000 });
  if (type === "hidden") return control;
  const made = document.createElement("label");
  made.className = type === "checkbox" ? "check" : "";
  const named = type === "datetime-local" ? `${label} (${timeZone()})` : label;
  made.append(...(type === "checkbox" ? [control, ` ${named}`] : [`${named} `, control]));
  return made;
}
function typed() { // what was filled in, in the types of JSON
  const filled = fieldsOf().filter(({ type, value }) => type === "checkbox" || value.trim());
  return Object.fromEntries(filled.map(({ name, type, value, checked, valueAsNumber }) => [
    name,
    { checkbox: () => checked, number: () => valueAsNumber, "datetime-local": () => instantOf(value) }[type]?.() ?? value.trim(),
  ]));
}
// What would be done, as soon as that is clear: nothing is changed by asking.
const plan = document.getElementById("confirm-plan");
let planning;
function showPlan(url, mine) {
  clearTimeout(planning);
  if (!url) return;
  planning = setTimeout(async () => {
    const values = typed();
    const asks = fieldsOf().filter(({ type }) => type !== "checkbox");
    if (!dialog.open || asked !== mine || (asks.length && !asks.some(({ value }) => value))) return say();
    if (asks.some((one) => !one.checkValidity())) return say();
    const found = await call(planUrl(url, values), "GET").catch((error) => ({ refusal: { observed: error.message } }));
    if (asked === mine && JSON.stringify(values) === JSON.stringify(typed())) say(found);
  }, 300);
}
function planUrl(url, values) {
  const address = new URL(`${prefix}${url}`, location.href);
  for (const [name, value] of Object.entries(values)) {
    if (typeof value !== "boolean") address.searchParams.set(name, value); // a checkbox says how it is done, not what
  }
  return address.href;
}
function say(found) {
  plan.hidden = !found;
  if (!found) return plan.replaceChildren();
  const { refusal } = found;
  const lines = refusal
    ? [["It would be refused", [refusal.observed, refusal.next_step && `Next: ${refusal.next_step}`].filter(Boolean).join(". ")]]
    : Object.entries(found.said);
  plan.replaceChildren(...lines.map(([head, text]) => {
    const [line, name] = [document.createElement("p"), document.createElement("b")];
    name.textContent = head;
    line.append(name, `: ${plain(text)}`);
    return line;
  }));
}
document.getElementById("confirm-fields").addEventListener("input", () => asked?.changed?.());

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-action]");
  if (!button || button.ariaDisabled === "true") return;
  ask({ ...button.dataset }, button.textContent);
});
function ask({ title, text, dag, url, conf, reason, fields, plan: planned, post, answer }, label) {
  const mine = asked = speaker(title);
  document.getElementById("confirm-title").textContent = title;
  document.getElementById("confirm-text").textContent = text;
  document.getElementById("confirm-fields").replaceChildren(...JSON.parse(fields || "[]").map(row));
  document.getElementById("confirm-reason").hidden = reason === undefined;
  Object.assign(field, { value: "", required: reason !== undefined && reason !== "optional" });
  document.getElementById("confirm-needed").textContent = field.required ? " (required)" : " (optional)";
  const offer = (open) => {
    yes.disabled = !open;
    no.textContent = open ? "Cancel" : "Close"; // what was asked for goes on
  };
  yes.textContent = label;
  offer(true);
  let paused = false;
  document.getElementById("confirm-paused").hidden = true;
  if (dag) isPaused(dag).then((found) => {
    if (asked !== mine || !found || yes.disabled) return;
    paused = true;
    yes.textContent = `Unpause and ${label.trim().toLowerCase()}`;
    document.getElementById("confirm-paused").textContent = `The DAG ${dag} is paused in Airflow: what is asked of it would wait.`;
    document.getElementById("confirm-paused").hidden = false;
  });
  yes.onclick = async (click) => {
    click.preventDefault();
    if (!dialog.querySelector("form").reportValidity()) return;
    offer(false);
    const wanted = { ...JSON.parse(conf || "{}"), ...(reason === undefined ? {} : { reason: field.value }) };
    try {
      if (post) wanted[answer] = (await call(`${prefix}${post}`, "POST", typed())).id;
      else Object.assign(wanted, typed());
      if (paused) await unpause(dag);
      if (dag) await trigger(dag, wanted, mine.say);
      else {
        await call(`${prefix}${url}`, "POST", wanted);
        dialog.close(); // what was done shows in its place
        mine.say("Done.");
      }
    } catch (error) {
      mine.say(`It failed: ${error.message}`, error.way);
      if (mine.inDialog()) offer(true);
    }
    refreshAll();
  };
  mine.changed = () => showPlan(planned, mine);
  say();
  dialog.showModal();
  [...dialog.querySelectorAll(":required")].find(({ value }) => !value)?.focus(); // what has to be typed
  mine.say("");
  mine.changed();
}

// A form that is sent as JSON; empty fields are left out. If it names a DAG, that is run with the id of the answer.
document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-post]");
  if (!form) return;
  event.preventDefault();
  const said = form.querySelector("[role=status]");
  said.textContent = "";
  const instant = (name, value) => (form.elements[name].type === "datetime-local" ? instantOf(value) : value);
  const values = Object.fromEntries([...new FormData(form)].filter(([, value]) => value).map(([name, value]) => [name, instant(name, value)]));
  try {
    const made = await call(`${prefix}${form.dataset.post}`, "POST", values);
    const { dag, conf, answer } = form.dataset;
    const say = (given, ...ways) => {
      const text = plain(given);
      const shown = [text, ...ways.filter(Boolean).map((way) => way.text)].join(" ");
      if (said.textContent !== shown) said.replaceChildren(text, ...ways.filter(Boolean).flatMap((way) => [" ", way.act ? presser(way, say) : anchor(way)]));
    };
    if (dag) await trigger(dag, { ...JSON.parse(conf), [answer]: made.id }, say);
    else said.textContent = "Done.";
  } catch (error) {
    said.replaceChildren(`It failed: ${error.message}`, ...(error.way ? [" ", anchor(error.way)] : []));
  }
  refreshAll();
});
