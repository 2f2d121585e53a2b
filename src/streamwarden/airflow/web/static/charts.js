// Draws the charts of a stream with Bokeh, from /api/v1/streams/NAME/charts.
"use strict";
(() => {
  const place = document.getElementById("charts");
  if (!place) return;
  const COLOURS = {
    light: ["#0b5cad", "#b35c00", "#14692f", "#7a3db8", "#a3195b", "#4d6370"],
    dark: ["#7cb8ff", "#f2b84b", "#6fd08c", "#c9a2f2", "#ff9ec7", "#b7c4d1"],
  };
  const MARKS = { // kind of event -> its sign at the top of its line, what the legend says, its colour, its dashes
    launched: ["L", "start", "dim", [4, 3]],
    "stop requested": ["S", "stop", "dim", [1, 3]],
    stopped: ["S", "stop", "dim", [4, 3]],
    completed: ["E", "end of the input", "dim", [10, 3]],
    crashed: ["X", "crash", "critical", [6, 2]],
    restarted: ["R", "restart", "warning", [2, 2]],
    "left down": ["!", "left down", "critical", [12, 2]],
    fenced: ["F", "replaced by another driver", "warning", [8, 2, 2, 2]],
    deployed: ["V", "deployment", "ok", [4, 3]],
    drilled: ["D", "drill", "chart", [4, 3]],
    incident: ["I", "incident", "critical", [1, 3]],
  };
  const LEVELS = 4; // heights at which the signs of events that are close together stand
  const CLOSE = 0.025; // of the range
  const SCALES = { // unit -> [from which value, its size, its name], the largest first
    bytes: [[1e12, 1e12, "TB"], [1e9, 1e9, "GB"], [1e6, 1e6, "MB"], [1e3, 1e3, "kB"], [0, 1, "B"]],
    seconds: [[172800, 86400, "d"], [7200, 3600, "h"], [120, 60, "min"], [1, 1, "s"], [0, 1e-3, "ms"]],
  };
  const MARGINS = { min_border_left: 62, min_border_right: 10 }; // so that one time is one place in each column
  const LEVEL = 15; // pixels of a level
  const REACH = 3; // a limit is drawn if it is at most so many times the highest value: otherwise the line would be flat
  const figures = new Map(); // chart -> {the source of each line, the range of values}
  let freshAt; // when the charts were read last
  let sheet; // the document of all charts: models of several documents cannot share a range
  let range; // shared by all charts, so that they zoom and pan together
  let marks = []; // the events that are drawn, oldest first
  let signs; // the source of their signs, in a lane over all charts
  let cross; // the line at the time that the mouse points at, in all charts

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const theme = () => document.documentElement.dataset.theme || "light";

  function shown(value, unit) {
    if (value === null || Number.isNaN(value)) return "–";
    const scale = SCALES[unit];
    if (!scale || !value) return value.toLocaleString("en", { maximumFractionDigits: 1 });
    const [, size, suffix] = scale.find(([from]) => Math.abs(value) >= from);
    return `${Number((value / size).toPrecision(3))} ${suffix}`;
  }

  const clock = SHAPES.full;

  function columns(chart, index) {
    const line = chart.lines[index];
    const below = line.values.map((_, at) => chart.stacked
      ? chart.lines.slice(0, index).reduce((sum, each) => sum + (each.values[at] ?? 0), 0) : 0);
    const values = line.values.map((value) => value ?? NaN);
    return {
      x: line.at.map(wall),
      y: values.map((value, at) => value + below[at]),
      below,
      value: values.map((value) => shown(value, chart.unit)),
      when: line.at.map(clock),
      line: line.values.map(() => plain(line.name)),
    };
  }

  function tick(unit) {
    const formatter = new Bokeh.BasicTickFormatter();
    formatter.doFormat = (ticks) => ticks.map((value) => shown(value, unit));
    return formatter;
  }

  function top(chart) {
    const highest = Math.max(0, ...chart.lines.flatMap((_, index) => columns(chart, index).y.filter(Number.isFinite)));
    const near = [chart.warning, chart.critical].filter((limit) => limit !== null && limit <= REACH * highest);
    return 1.1 * Math.max(highest, ...near) || 1;
  }

  function figure(chart, values) {
    const plot = Bokeh.Plotting.figure({
      height: place.classList.contains("four") ? 150 : 190, sizing_mode: "stretch_width", x_axis_type: "datetime", x_range: range, y_range: values,
      tools: "xpan,xbox_zoom,reset", toolbar_location: null, background_fill_color: colour("back"),
      border_fill_color: colour("back"), outline_line_color: colour("line"), ...MARGINS,
    });
    plot.add_tools(new Bokeh.CrosshairTool({ overlay: cross }));
    plot.add_tools(new Bokeh.WheelZoomTool({ dimensions: "width", modifiers: { ctrl: true } }));
    for (const axis of [...plot.xaxis, ...plot.yaxis]) {
      Object.assign(axis, { major_label_text_color: colour("text"), axis_line_color: colour("dim"), major_tick_line_color: colour("dim"), minor_tick_line_color: null });
    }
    for (const axis of plot.yaxis) axis.formatter = tick(chart.unit);
    for (const grid of [...plot.xgrid, ...plot.ygrid]) grid.grid_line_color = colour("line");
    return plot;
  }

  function limits(plot, chart) {
    if (chart.warning === null || chart.critical === null) return [];
    const band = (name, limits) => new Bokeh.BoxAnnotation({ ...limits, fill_color: colour(name), fill_alpha: 0.12, line_color: null });
    const bands = [
      band("warning", { bottom: chart.warning, top: chart.critical }),
      band("critical", { bottom: chart.critical }), // up to the edge
    ];
    for (const each of bands) plot.add_layout(each);
    return bands;
  }
  function reach(chart, values, bands) {
    values.end = top(chart);
    for (const each of bands) each.visible = each.bottom < values.end; // Bokeh draws one that is out of sight at the edge
  }

  function mark(plot) {
    for (const event of marks) {
      const [, , ink, line_dash] = MARKS[event.kind];
      plot.add_layout(new Bokeh.Span({ location: wall(event.at), dimension: "height", line_color: colour(ink), line_dash, line_width: 1.5 }));
    }
  }
  // What happened, on one line over all charts.
  function lane() {
    const box = document.createElement("figure");
    Object.assign(box, { id: "lane", className: "lane", ariaLabel: "What happened; the tab History has it as a table" });
    place.append(box);
    const levels = 1 + Math.max(...signs.data.level);
    const plot = Bokeh.Plotting.figure({
      height: 10 + LEVEL * levels, sizing_mode: "stretch_width", x_axis_type: "datetime", x_range: range, y_range: new Bokeh.Range1d({ start: -levels + 0.5, end: 0.5 }),
      tools: "xpan", toolbar_location: null, background_fill_color: colour("soft"), border_fill_color: colour("back"), outline_line_color: null, ...MARGINS,
    });
    for (const axis of [...plot.xaxis, ...plot.yaxis]) axis.visible = false;
    for (const grid of [...plot.xgrid, ...plot.ygrid]) grid.grid_line_color = null;
    plot.add_tools(new Bokeh.CrosshairTool({ overlay: cross }));
    const drawn = plot.text({ x: { field: "x" }, y: { field: "y" }, text: { field: "sign" }, source: signs, text_color: { field: "ink" }, text_font_size: "12px", text_font_style: "bold", text_baseline: "middle", text_align: "center" });
    plot.add_tools(new Bokeh.HoverTool({ renderers: [drawn], mode: "mouse", attachment: "below", tooltips: [["", "@what"], [timeZone(), "@when"], ["why", "@why"]] }));
    sheet.add_root(plot);
    return box;
  }
  // The sign of each event, lower where one stands close before it.
  function signsOf(since, until) {
    const data = { x: [], y: [], level: [], sign: [], ink: [], what: [], when: [], why: [] };
    let [before, level] = [-Infinity, 0];
    for (const event of marks) {
      level = event.at - before < CLOSE * (until - since) ? (level + 1) % LEVELS : 0;
      before = event.at;
      const [sign, , ink] = MARKS[event.kind];
      const row = [wall(event.at), -level, level, sign, colour(ink), event.kind + (event.who ? ` by ${event.who}` : ""), clock(event.at), plain(event.why || "–")];
      Object.values(data).forEach((column, index) => column.push(row[index]));
    }
    return data;
  }
  function legend() { // of what happened in this time
    const drawn = marks.map(({ kind }) => MARKS[kind]);
    const known = new Map(Object.values(MARKS).filter((mark) => drawn.includes(mark)).map(([sign, said, ink]) => [sign, [said, ink]]));
    const entries = [...known].flatMap(([sign, [said, ink]]) => {
      const shown = document.createElement("span");
      Object.assign(shown, { className: `sign ${ink}`, textContent: sign });
      const entry = document.createElement("span");
      entry.className = "one";
      entry.append(shown, ` ${said}`);
      return [entry, " "];
    });
    document.getElementById("legend")?.replaceChildren(...entries);
  }

  const measured = (chart) => chart.lines.some((line) => line.at.length);
  function missing(charts) { // in one line
    if (!charts.length) return;
    const said = document.createElement("p");
    said.className = "empty";
    said.textContent = `Nothing was measured in this time: ${charts.map(({ title }) => title.toLowerCase()).join(", ")}.`;
    place.append(said);
  }
  function draw(chart) {
    const box = document.createElement("figure");
    box.className = "chart";
    box.id = `chart-${chart.name}`;
    const caption = document.createElement("figcaption");
    caption.textContent = `${chart.title}${chart.hourly_until ? `, until ${clock(chart.hourly_until).slice(0, 10)} means of hours` : ""}`;
    if (chart.warning !== null && chart.critical !== null) {
      const said = document.createElement("span");
      said.className = "dim";
      said.textContent = ` warning from ${shown(chart.warning, chart.unit)}, critical above ${shown(chart.critical, chart.unit)}`;
      caption.append(said);
    }
    box.append(caption);
    place.append(box);
    const values = new Bokeh.Range1d({ start: 0 });
    const plot = figure(chart, values);
    const bands = limits(plot, chart);
    reach(chart, values, bands);
    const sources = chart.lines.map((_, index) => new Bokeh.ColumnDataSource({ data: columns(chart, index) }));
    chart.lines.forEach((line, index) => {
      const [source, ink] = [sources[index], COLOURS[theme()][index % COLOURS[theme()].length]];
      const legend = chart.lines.length > 1 ? { legend_label: plain(line.name) } : {};
      if (chart.stacked) plot.varea({ x: { field: "x" }, y1: { field: "below" }, y2: { field: "y" }, source, fill_color: ink, fill_alpha: 0.5, ...legend });
      const drawn = plot.line({ x: { field: "x" }, y: { field: "y" }, source, line_color: ink, line_width: 2, ...(chart.stacked ? {} : legend) });
      plot.add_tools(new Bokeh.HoverTool({ renderers: [drawn], mode: "vline", tooltips: [["", "@line: @value"], [timeZone(), "@when"]] }));
    });
    if (chart.lines.length > 1) {
      Object.assign(plot.legend, { background_fill_alpha: 0.7, background_fill_color: colour("back"), label_text_color: colour("text"), location: "bottom_left", orientation: "horizontal", label_text_font_size: "11px", padding: 2, border_line_color: null });
    }
    mark(plot);
    figures.set(chart.name, { sources, values, bands });
    sheet.add_root(plot);
    return box;
  }

  function describe(charts) {
    // The same numbers for people who do not see the picture.
    for (const chart of charts) {
      const box = document.getElementById(`chart-${chart.name}`);
      const newest = chart.lines.filter((line) => line.values.length).map((line) => `${line.name} ${shown(line.values.at(-1), chart.unit)}`);
      box?.setAttribute("aria-label", `${chart.title}: ${newest.join(", ") || "nothing measured"}`);
    }
  }

  async function read() {
    const [found, events, incidents] = await Promise.all([
      ask(place.dataset.charts),
      ask(place.dataset.events),
      ask(place.dataset.incidents),
    ]);
    const opened = incidents.map((each) => ({ kind: "incident", at: each.opened_at, why: `${each.check}: ${each.reason}` }));
    found.charts = found.charts.filter((chart) => chart.lines.length); // without parts that the stream does not have
    const only = place.dataset.only?.split(" ");
    if (only) found.charts = found.charts.filter((chart) => only.includes(chart.name));
    const drawn = [...events, ...opened].filter(({ kind, at }) => kind in MARKS && at >= found.since).sort((one, other) => one.at - other.at);
    return [found, drawn];
  }
  async function ask(path) {
    const answer = await fetch(address(path));
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.detail || `Airflow answered ${answer.status}`);
    return found;
  }
  function address(path) {
    const url = new URL(path, location.href);
    if (path === place.dataset.incidents) return url; // the API refuses what an operation does not know
    const { since, until } = place.dataset;
    if (since) url.searchParams.set("since", since);
    if (until && path === place.dataset.charts) url.searchParams.set("until", until);
    const seconds = Number(place.dataset.range);
    if (seconds) url.searchParams.set("since", String(Date.now() / 1000 - seconds));
    return url;
  }

  async function again(redraw) {
    const [found, events] = await read();
    const same = !redraw && events.length === marks.length && found.charts.every((chart) =>
      (figures.get(chart.name)?.sources.length ?? 0) === (measured(chart) ? chart.lines.length : 0));
    marks = events;
    if (same && figures.size) {
      for (const chart of found.charts.filter(({ name }) => figures.has(name))) {
        const { sources, values, bands } = figures.get(chart.name);
        sources.forEach((source, index) => { source.data = columns(chart, index); });
        reach(chart, values, bands);
      }
      signs.data = signsOf(found.since, found.until);
      [range.start, range.end] = [wall(found.since), wall(found.until)];
    } else {
      sheet?.clear();
      place.replaceChildren();
      figures.clear();
      sheet = new Bokeh.Document();
      range = new Bokeh.Range1d({ start: wall(found.since), end: wall(found.until) });
      signs = new Bokeh.ColumnDataSource({ data: signsOf(found.since, found.until) });
      cross = new Bokeh.Span({ dimension: "height", location: NaN, line_color: colour("dim"), line_width: 1 });
      const boxes = [...(marks.length ? [lane()] : []), ...found.charts.filter(measured).map(draw)];
      missing(found.charts.filter((chart) => !measured(chart)));
      legend();
      await Bokeh.embed.add_document_standalone(sheet, place, boxes);
    }
    describe(found.charts);
    place.dataset.drawn = "true";
    delete place.dataset.failed;
    freshAt = Date.now();
    tell("");
  }

  // Charts that were drawn stay: their head says how old they are, and why.
  function failed(error) {
    place.dataset.failed = error.message;
    if (!figures.size) place.replaceChildren();
    tell(error instanceof TypeError ? "Airflow does not answer" : error.message);
  }
  const head = document.getElementById("charts-age");
  function tell(reason) {
    head.hidden = !reason;
    place.classList.toggle("stale", Boolean(reason));
    const age = Math.round((Date.now() - freshAt) / 1000);
    head.textContent = !reason ? "" : figures.size ? `The charts are ${age}\u00a0s old: ${reason}` : `The charts are missing: ${reason}`;
  }

  const draws = (redraw) => again(redraw).catch(failed);
  for (const chosen of ["theme", "zone"]) document.addEventListener(chosen, () => draws(true));
  draws(true);
  setInterval(() => { if (!document.hidden && !place.matches(":hover")) draws(false); }, 10000);
})();
