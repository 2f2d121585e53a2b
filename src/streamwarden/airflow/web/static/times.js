// Times in the zone of Airflow's clock menu. Whatever shows a time, or reads one that a person typed, asks here.
"use strict";

function timeZone() { // Airflow keeps what a person chose in this storage of the browser, and shows UTC until then
  try {
    const kept = localStorage.getItem("timezone");
    const chosen = kept?.startsWith("\"") ? JSON.parse(kept) : kept;
    clocks(chosen);
    return chosen;
  } catch {
    return "UTC";
  }
}
const made = new Map(); // zone -> its clock
function clocks(zone) { // Throws a RangeError for an unknown zone.
  if (!made.has(zone)) {
    const number = "2-digit";
    made.set(zone, new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", year: "numeric", month: number, day: number, hour: number, minute: number, second: number }));
  }
  return made.get(zone);
}
function onClock(at) { // what a clock of the zone shows at these Unix seconds
  return Object.fromEntries(clocks(timeZone()).formatToParts(new Date(1000 * at)).map(({ type, value }) => [type, value]));
}
function wall(at) { // the milliseconds at which a clock of UTC shows what one of the zone shows now: for the axes of charts
  const { year, month, day, hour, minute, second } = onClock(at);
  return Date.UTC(year, month - 1, day, hour, minute, second);
}
function instantOf(typed) { // `2026-01-31T12:00` on a clock of the zone, as an ISO 8601 time of UTC
  const meant = Date.parse(`${typed}Z`);
  const first = meant - (wall(meant / 1000) - meant);
  return new Date(meant - (wall(first / 1000) - first)).toISOString();
}
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const HALF_A_YEAR = 183 * 86400;
const SHAPES = { // as the server writes each of them in UTC
  full: (at) => { const { year, month, day } = onClock(at); return `${year}-${month}-${day}\u00a0${SHAPES.clock(at)}`; },
  named: (at) => `${SHAPES.full(at)} ${timeZone()}`,
  clock: (at) => { const { hour, minute, second } = onClock(at); return `${hour}:${minute}:${second}`; },
  due: (at) => `${DAYS[new Date(wall(at)).getUTCDay()]} ${dayAndTime(at)}`,
  since: (at) => {
    const now = Date.now() / 1000;
    if (SHAPES.full(at).slice(0, 10) === SHAPES.full(now).slice(0, 10)) return SHAPES.clock(at).slice(0, 5);
    return dayAndTime(at, Math.abs(now - at) < HALF_A_YEAR ? "" : ` ${onClock(at).year}`);
  },
};
function dayAndTime(at, year = "") {
  const { month, day } = onClock(at);
  return `${Number(day)} ${MONTHS[month - 1]}${year} ${SHAPES.clock(at).slice(0, 5)}`;
}

// In sentences the server writes whole times of UTC; logs and code stay as somebody wrote them.
const IN_A_SENTENCE = /(\d{4})-(\d\d)-(\d\d)[ \u00a0](\d\d:\d\d:\d\d) UTC/g;
function zoned(text) {
  return text.replace(IN_A_SENTENCE, (_, year, month, day, clock) => SHAPES.named(Date.parse(`${year}-${month}-${day}T${clock}Z`) / 1000));
}
function times(place) {
  for (const each of place.querySelectorAll("time[data-moment]")) shows(each, SHAPES[each.dataset.shape](Number(each.dataset.moment)));
  for (const each of place.querySelectorAll("[data-zone]")) shows(each, timeZone());
  for (const each of place.querySelectorAll("[data-zoned]")) shows(each, zoned(each.dataset.zoned));
  if (timeZone() === "UTC") return;
  const texts = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (node.data.includes(" UTC") && !node.parentElement?.closest("pre, code, .log, .trace")) node.data = zoned(node.data);
  }
}
function shows(place, text) {
  if (place.textContent !== text) place.textContent = text;
}
times(document);
addEventListener("storage", ({ key }) => { // a person chose another zone in Airflow: sentences follow when they are read again
  if (key !== "timezone") return;
  times(document);
  document.dispatchEvent(new CustomEvent("zone"));
});
