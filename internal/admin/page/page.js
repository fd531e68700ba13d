"use strict";
// The server makes the page; this script keeps it up to date. Each pass that
// the event stream tells of has the backend's part of the page fetched and its
// changes put in place. Charts are drawn from the history.
(() => {
  const svgNS = "http://www.w3.org/2000/svg";
  const $ = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, attributes = {}, text = "") => {
    const e = ["svg", "path", "text"].includes(tag) ? document.createElementNS(svgNS, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
    if (text !== "") e.textContent = text;
    return e;
  };

  // Ages grow by themselves; the server's clock is the one that counts.
  let ahead = 0; // of our clock
  const setClock = (page) => {
    const now = Date.parse($("#top time", page).dateTime);
    ahead = Date.now() - now;
  };
  const span = (s) => {
    s = Math.max(0, Math.floor(s));
    if (s < 120) return s + " s";
    if (s < 7200) return Math.floor(s / 60) + " min";
    if (s < 172800) return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
    return Math.floor(s / 86400) + " d " + Math.floor(s % 86400 / 3600) + " h";
  };
  const tick = () => {
    const now = (Date.now() - ahead) / 1000;
    for (const e of all("[data-at]")) {
      const text = span(now - Number(e.dataset.at));
      if (e.textContent !== text) e.textContent = text;
    }
  };

  // morph makes a like b without replacing what stays: open details, the
  // filter and the scroll position survive. What has data-own is this script's.
  const morph = (a, b) => {
    if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName) {
      a.replaceWith(document.importNode(b, true));
      return;
    }
    if (a.nodeType !== Node.ELEMENT_NODE) {
      if (a.data !== b.data) a.data = b.data;
      return;
    }
    if (a.hasAttribute("data-own")) return;
    for (const { name } of [...a.attributes]) {
      if (!b.hasAttribute(name) && name !== "open" && name !== "hidden") a.removeAttribute(name);
    }
    for (const { name, value } of b.attributes) {
      if (a.getAttribute(name) !== value) a.setAttribute(name, value);
    }
    morphChildren(a, b);
  };
  const keyOf = (node) => node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
  const morphChildren = (a, b, mayRemove = true) => {
    const keyed = new Map();
    for (const child of a.children) {
      if (keyOf(child) !== null) keyed.set(keyOf(child), child);
    }
    let at = a.firstChild;
    for (const next of [...b.childNodes]) {
      const key = keyOf(next);
      const match = key !== null ? keyed.get(key) : at && keyOf(at) === null ? at : undefined;
      if (match === undefined) {
        a.insertBefore(document.importNode(next, true), at);
        continue;
      }
      if (match === at) at = at.nextSibling;
      else a.insertBefore(match, at);
      morph(match, next);
    }
    while (at && mayRemove) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  // refresh fetches the page, or one backend's part of it.
  const refresh = async (backend) => {
    const url = new URL(location.href);
    const single = url.searchParams.has("backend");
    if (backend && !single) url.searchParams.set("backend", backend);
    const answer = await fetch(url, { signal: AbortSignal.timeout(20000), cache: "no-store" });
    if (!answer.ok) throw new Error("status " + answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    setClock(page);
    if (backend && !single) {
      const others = $(".others", page);
      if (others) others.remove();
      for (const section of all("section.backend", page)) {
        const here = all("section.backend").find((s) => s.dataset.key === section.dataset.key);
        if (here) morph(here, section);
        else $("#main").append(document.importNode(section, true));
      }
    } else {
      morph($("#main"), $("#main", page));
    }
    morph($("#top"), $("#top", page));
    document.title = page.title;
    dress();
    tick();
  };

  // Passes come in bursts: each backend is fetched at most once a second.
  const waiting = new Map();
  const refreshSoon = (backend) => {
    if (waiting.has(backend)) return;
    waiting.set(backend, setTimeout(() => {
      waiting.delete(backend);
      refresh(backend).then(() => updateCharts(backend)).catch(() => {}); // the contact line tells
    }, document.hidden ? 5000 : 300));
  };

  // The event stream, and what is said when it is lost.
  const silence = 40000; // the server says something every 15 s
  let stream, heard = Date.now(), lost = false;
  const contact = (live) => {
    const e = $("#contact");
    e.hidden = false;
    e.className = live ? "live" : "lost";
    document.body.classList.toggle("lost", !live);
    e.textContent = live ? "● live" : "✕ stale: no contact since " + new Date(heard - ahead).toISOString().slice(11, 19) + " UTC";
  };
  const hear = () => {
    heard = Date.now();
    contact(true);
    if (lost) {
      lost = false;
      refresh("").then(() => updateCharts("")).catch(() => {});
    }
  };
  const lose = () => {
    lost = true;
    contact(false);
  };
  let again = 0; // timer of the next try
  const listen = () => {
    clearTimeout(again);
    again = 0;
    if (stream) stream.close();
    stream = new EventSource("/api/v1/events");
    stream.addEventListener("open", hear);
    stream.addEventListener("beat", hear);
    stream.addEventListener("pass", (event) => {
      hear();
      refreshSoon(JSON.parse(event.data).backend);
    });
    stream.addEventListener("error", () => {
      lose();
      // The browser tries again by itself, but for a refusal.
      if (stream.readyState === EventSource.CLOSED && !again) again = setTimeout(listen, 10000);
    });
  };
  const watch = () => {
    if (Date.now() - heard < silence) return;
    lose();
    if (stream.readyState === EventSource.OPEN) listen(); // open, and dead
  };

  // dress adds what only works with this script: the filter and the charts.
  const dress = () => {
    for (const section of all("section.backend")) {
      const filter = $(".filter", section);
      if (filter && !filter.firstChild) addFilter(section, filter);
      if (filter) applyFilter(section, filter);
      const box = $(".charts", section);
      if (box && !charts.has(box)) addCharts(box, section);
    }
    for (const box of charts.keys()) {
      if (!box.isConnected) charts.delete(box);
    }
  };
  const addFilter = (section, filter) => {
    const rows = all("tr[data-server]", section).length;
    if (rows <= 12) return;
    const input = make("input", { type: "search", placeholder: "Filter servers by name or state", "aria-label": "Filter servers of " + section.dataset.backend, autocomplete: "off", spellcheck: "false" });
    input.addEventListener("input", () => applyFilter(section, filter));
    filter.append(input, make("span", { class: "hint", role: "status" }));
    filter.hidden = false;
  };
  const applyFilter = (section, filter) => {
    const input = $("input", filter);
    if (!input) return;
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    const rows = all("tr[data-server]", section);
    for (const row of rows) {
      const text = [...row.cells].slice(0, 3).map((c) => c.textContent).join(" ").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      if (!row.hidden) shown++;
    }
    $("span", filter).textContent = words.length ? shown + " of " + rows.length + " servers" : rows.length + " servers";
  };

  // Charts: what each has is fetched when it comes into view, and then only
  // what is new.
  const charts = new Map();
  const addCharts = (box, section) => {
    const chart = { box, section, hours: 1, data: null, busy: false, seen: false, picked: "" };
    charts.set(box, chart);
    box.hidden = false;
    const ranges = make("div", { class: "ranges" });
    for (const hours of [1, 24]) {
      const button = make("button", { type: "button", "aria-pressed": String(hours === chart.hours) }, hours + " h");
      button.addEventListener("click", () => {
        chart.hours = hours;
        for (const b of all("button", ranges)) b.setAttribute("aria-pressed", String(b === button));
        draw(chart);
      });
      ranges.append(button);
    }
    chart.says = make("span", { role: "status" }, "loading");
    ranges.append(chart.says);
    chart.panels = make("div", { class: "panels" });
    box.append(ranges, chart.panels);
    section.addEventListener("pointerover", (event) => {
      const row = event.target.closest("tr[data-server]");
      if (row) pick(chart, row.dataset.server);
    });
    section.addEventListener("pointerleave", () => pick(chart, ""));
    visible.observe(box);
    resized.observe(box);
  };
  const visible = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const chart = charts.get(entry.target);
      if (!chart || !entry.isIntersecting) continue;
      chart.seen = true;
      load(chart);
    }
  }, { rootMargin: "300px" });
  const resized = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const chart = charts.get(entry.target);
      if (chart && chart.data && chart.width !== entry.target.clientWidth) draw(chart);
    }
  });
  const updateCharts = (backend) => {
    for (const chart of charts.values()) {
      if (chart.seen && (!backend || chart.box.dataset.chart === backend)) load(chart);
    }
  };
  const load = async (chart) => {
    if (chart.busy) return;
    chart.busy = true;
    try {
      const times = chart.data ? chart.data.times : [];
      const since = times.length ? "?since=" + times[times.length - 1] : "";
      const answer = await fetch("/api/v1/history/" + encodeURIComponent(chart.box.dataset.chart) + since, { signal: AbortSignal.timeout(20000), cache: "no-store" });
      if (!answer.ok) throw new Error("status " + answer.status);
      const history = await answer.json();
      const series = history.series.find((s) => s.socket === chart.box.dataset.socket);
      if (series) chart.data = chart.data ? joined(chart.data, series) : series;
      draw(chart);
    } catch (error) {
      chart.says.textContent = "the history can't be read (" + error.message + ")";
    } finally {
      chart.busy = false;
    }
  };
  // joined appends b to a, and forgets what is older than a day.
  const joined = (a, b) => {
    const times = a.times.concat(b.times);
    const old = times.findIndex((t) => t >= times[times.length - 1] - 86400);
    const drop = Math.max(0, old);
    const join = (from, to) => {
      const out = {};
      for (const name of new Set([...Object.keys(from), ...Object.keys(to)])) {
        out[name] = (from[name] || Array(a.times.length).fill(null)).concat(to[name] || Array(b.times.length).fill(null)).slice(drop);
      }
      return out;
    };
    return { times: times.slice(drop), imbalance: a.imbalance.concat(b.imbalance).slice(drop), loads: join(a.loads, b.loads), weights: join(a.weights, b.weights) };
  };

  const short = (v) => {
    const size = Math.abs(v);
    if (size >= 1e9) return +(v / 1e9).toPrecision(3) + "G";
    if (size >= 1e6) return +(v / 1e6).toPrecision(3) + "M";
    if (size >= 1e4) return +(v / 1e3).toPrecision(3) + "k";
    return String(+v.toPrecision(4));
  };
  const clock = (t, seconds) => new Date(t * 1000).toISOString().slice(11, seconds ? 19 : 16);
  const draw = (chart) => {
    chart.panels.textContent = "";
    chart.width = chart.box.clientWidth;
    const data = chart.data;
    const count = data ? data.times.length : 0;
    if (count < 2) {
      chart.says.textContent = "charts begin with the second pass";
      return;
    }
    const end = data.times[count - 1];
    const first = data.times.findIndex((t) => t >= end - chart.hours * 3600);
    const times = data.times.slice(first);
    const cut = (lines) => Object.entries(lines).map(([name, values]) => [name, values.slice(first)]).filter(([, values]) => values.some((v) => v !== null));
    const rows = all("tr[data-server]", chart.section);
    const top = rows.find((row) => $(".times", row)) || rows[0]; // the first one with data
    chart.busiest = top ? top.dataset.server : "";
    chart.says.textContent = times.length > 1 ? clock(times[0]) + " to " + clock(end) + " UTC" : "only one pass in this time";
    if (times.length < 2) return;
    chart.parts = [
      panel(chart, "max / mean load", times, [["max / mean", data.imbalance.slice(first)]], { even: 1, floor: 1 }),
      panel(chart, "load by server", times, cut(data.loads), { floor: 0 }),
      panel(chart, "weight by server", times, cut(data.weights), { floor: 0 }),
    ];
    for (const part of chart.parts) chart.panels.append(part.figure);
    pick(chart, chart.picked);
  };
  // panel draws one chart: a line for each server.
  const panel = (chart, title, times, lines, o) => {
    const figure = make("figure", { class: lines.length > 30 ? "many" : "" });
    const caption = make("figcaption");
    const readout = make("span");
    caption.append(make("b", {}, title), readout);
    const columns = chart.width > 700 ? 3 : 1;
    const width = Math.max(200, (chart.width - 14 * (columns - 1)) / columns), height = 132;
    const left = 38, right = 6, top = 6, bottom = 18;
    let most = o.even || 0, least = o.floor;
    for (const [, values] of lines) for (const v of values) if (v !== null && v > most) most = v;
    if (o.even && most < 1.1) most = 1.1;
    const steps = ticks(least, most);
    most = Math.max(most, steps[steps.length - 1]);
    const begin = times[0], end = times[times.length - 1];
    const x = (t) => left + (t - begin) / Math.max(1, end - begin) * (width - left - right);
    const y = (v) => height - bottom - (v - least) / Math.max(1e-9, most - least) * (height - top - bottom);
    const svg = make("svg", { viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": title + ", " + clock(begin) + " to " + clock(end) + " UTC" });
    for (const v of steps) {
      svg.append(make("path", { class: "grid", d: "M" + left + " " + y(v) + "H" + (width - right) }));
      svg.append(make("text", { x: left - 5, y: y(v) + 4, "text-anchor": "end" }, short(v)));
    }
    if (o.even) svg.append(make("path", { class: "even", d: "M" + left + " " + y(o.even) + "H" + (width - right) }));
    for (const [part, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
      const t = begin + (end - begin) * part;
      svg.append(make("text", { x: x(t), y: height - 4, "text-anchor": anchor }, clock(t, end - begin < 600)));
    }
    const traces = new Map();
    for (const [name, values] of lines) {
      const trace = make("path", { class: lines.length === 1 ? "trace only" : "trace", d: pathOf(times, values, x, y) });
      traces.set(name, trace);
      svg.append(trace);
    }
    const cursor = make("path", { class: "cursor", d: "" });
    svg.append(cursor);
    const part = { figure, svg, traces, lines, times, readout, cursor, x, y, top, bottom: height - bottom, single: lines.length === 1 };
    svg.addEventListener("pointermove", (event) => point(chart, part, event));
    svg.addEventListener("pointerleave", () => pick(chart, ""));
    figure.append(caption, svg);
    return part;
  };
  const ticks = (least, most) => {
    const raw = Math.max(1e-9, most - least) / 3;
    const size = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * size).find((s) => s >= raw);
    const out = [];
    for (let i = 0; least + i * step < most + step * 0.999; i++) out.push(+(least + i * step).toPrecision(10));
    return out;
  };
  // pathOf breaks where there are no data, and where passes are missing.
  const pathOf = (times, values, x, y) => {
    let d = "", open = false;
    for (let i = 0; i < times.length; i++) {
      if (values[i] === null || values[i] === undefined) {
        open = false;
        continue;
      }
      d += (open ? "L" : "M") + x(times[i]).toFixed(1) + " " + y(values[i]).toFixed(1);
      if (!open && (i + 1 === times.length || values[i + 1] === null)) d += "h1";
      open = true;
    }
    return d;
  };
  // point picks the line that is nearest to the pointer.
  const point = (chart, part, event) => {
    const box = part.svg.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    let at = 0;
    part.times.forEach((t, i) => {
      if (Math.abs(part.x(t) - px) < Math.abs(part.x(part.times[at]) - px)) at = i;
    });
    let best = "", far = Infinity;
    for (const [name, values] of part.lines) {
      if (values[at] === null || values[at] === undefined) continue;
      const distance = Math.abs(part.y(values[at]) - py);
      if (distance < far) [best, far] = [name, distance];
    }
    pick(chart, part.single ? chart.picked : best, at);
  };
  // pick marks a server's lines and its row; none is the one on top.
  const pick = (chart, server, at = -1) => {
    chart.picked = server;
    const name = server || chart.busiest;
    for (const row of all("tr.hot", chart.section)) row.classList.remove("hot");
    if (server) {
      const row = all("tr[data-server]", chart.section).find((r) => r.dataset.server === server);
      if (row) row.classList.add("hot");
    }
    for (const part of chart.parts || []) {
      for (const trace of all(".hot", part.svg)) trace.classList.remove("hot");
      const trace = part.traces.get(name);
      if (trace && !part.single) {
        trace.classList.add("hot");
        part.svg.insertBefore(trace, part.cursor);
      }
      const [label, values] = (part.single ? part.lines[0] : part.lines.find(([n]) => n === name)) || ["", []];
      const i = at >= 0 && at < values.length ? at : values.length - 1;
      const value = values[i];
      const text = value === null || value === undefined ? "no data" : short(value);
      part.readout.textContent = label === "" ? "" : (part.single ? "" : label + " ") + text + (at >= 0 ? " at " + clock(part.times[i]) : "");
      part.cursor.setAttribute("d", at >= 0 ? "M" + part.x(part.times[i]) + " " + part.top + "V" + part.bottom : "");
    }
  };

  setClock(document);
  dress();
  tick();
  setInterval(tick, 1000);
  listen();
  setInterval(watch, 5000);
})();
