// The overview of all pools, and the page of one pool.
import { h, bytes, count, rate, relative, share, since, span, when } from "./dom.js";
import { get, path, query, send } from "./net.js";
import { act, app, busy, confirm, fail, may, redraw } from "./state.js";
import { badge, bar, button, empty, facts, fault, link, loading, poolLink, section, table, to } from "./parts.js";
import { chart, spark, values } from "./chart.js";
import { workersTable } from "./workers.js";

// hour is the history of a pool, or of all, as it comes in.
class Hour {
  constructor(pool) {
    this.pool = pool;
    this.at = null;
    this.open = false;
    this.next = 0;
  }
  async load() {
    if (Date.now() < this.next) return;
    this.next = Date.now() + 10000;
    try {
      this.data = await get("/v1/history" + query({ pool: this.pool }));
      this.error = null;
    } catch (e) {
      this.error = e;
      this.next = Date.now() + 5000;
    }
    redraw();
  }
  view() {
    if (!this.data) return this.error ? fault(this.error) : loading();
    const s = this.data.series;
    const from = Date.parse(this.data.from);
    const common = { from, step: this.data.step, at: this.at, point: (i) => { if (this.at !== i) { this.at = i; redraw(); } } };
    const line = (name, values, look) => ({ name, values, look });
    const all = [
      { title: "Waiting", say: count, lines: [line("waiting", s.waiting, "a")] },
      { title: "Oldest job", say: span, lines: [line("oldest", s.oldest, "a")] },
      { title: "Running", say: count, lines: [line("running", s.running, "a")] },
      { title: "Ended per second", say: rate, lines: [line("all", s.rate, "a"), line("badly", s.errors, "bad")] },
      { title: "Time waited", say: span, lines: [line("p99", s.wait_p99, "b"), line("p50", s.wait_p50, "a")] },
      { title: "Time run", say: span, lines: [line("p99", s.run_p99, "b"), line("p50", s.run_p50, "a")] },
    ];
    return [
      h("div", { class: "charts" }, all.map((c) => chart({ ...common, ...c }))),
      h("details", { ontoggle: (e) => { this.open = e.target.open; redraw(); } }, h("summary", null, "The same as a table"),
        this.open ? values(all.flatMap((c) => c.lines.map((l) => ({ title: c.lines.length > 1 ? c.title + ", " + l.name : c.title, values: l.values, say: c.say }))), from, this.data.step) : null),
    ];
  }
}

const tile = (name, value, more, look) => h("div", { class: "tile " + (look || ""), key: name }, h("span", { class: "quiet" }, name), h("b", null, value), h("small", { class: "quiet" }, more || "\u00a0"));

// tiles are the numbers of a pool, or of all.
function tiles(p, dead) {
  return h("div", { class: "tiles" },
    tile("Waiting", count(p.waiting), p.oldest ? "oldest " + span(Math.floor(since(p.oldest))) : "nothing waits"),
    tile("Running", count(p.running), p.max ? "on " + count(p.workers) + " of at most " + count(p.max) + " workers" : "no workers here"),
    tile("Ended", rate(p.rate) + "/s", "in the last seconds"),
    tile("Errors", share(p.errors, p.rate), rate(p.errors) + "/s end badly", p.errors > 0 ? "bad" : ""),
    tile("Waited", span(p.wait_p50), "p99 " + span(p.wait_p99)),
    tile("Ran", span(p.run_p50), "p99 " + span(p.run_p99)),
    dead === undefined ? null : tile("Dead letters", count(dead), dead ? link("/dead", "look at them") : "none", dead ? "warn" : ""));
}

export const stateOf = (p) => [p.paused ? badge("paused") : badge(p.state), p.error ? badge("does not start", "bad") : null];

export function overview() {
  const hour = new Hour();
  const sparks = new Map();
  let dead;
  let next = 0;

  async function loadMore() {
    hour.load();
    if (Date.now() < next || !app.overview) return;
    next = Date.now() + 30000;
    get("/v1/status").then((s) => { dead = s.store?.dead?.messages || 0; redraw(); }, () => {});
    for (const p of app.overview.pools.slice(0, 24)) {
      try {
        sparks.set(p.name, (await get("/v1/history" + query({ pool: p.name }))).series.rate);
      } catch { return; }
    }
    redraw();
  }

  function view() {
    const o = app.overview;
    if (!o) return [h("h1", null, "Overview"), loading()];
    if (o.pools.length === 0) {
      return [h("h1", null, "Overview"), empty("There is no pool yet.", h("p", null, "Add one to bullpen.yaml under ", h("code", null, "pools:"), " and run ", h("code", null, "bullpen reload"), "."))];
    }
    return [
      h("h1", null, "Overview"),
      tiles(o.totals, dead),
      section("Pools", null, table("Pools", [
        { name: "Pool", cell: (p) => h("strong", null, poolLink(p.name)) },
        { name: "State", cell: stateOf },
        { name: "Waiting", look: "number", cell: (p) => count(p.waiting) },
        { name: "Oldest", look: "number", cell: (p) => (p.oldest ? h("span", { title: p.oldest }, span(Math.floor(since(p.oldest)))) : "–") },
        { name: "Running", look: "number", cell: (p) => count(p.running) },
        { name: "Workers", look: "number", cell: (p) => (p.max ? p.workers + "/" + p.max : "–") },
        { name: "Ended/s", look: "number", cell: (p) => rate(p.rate) },
        { name: "Errors", look: "number", cell: (p) => h("span", { class: p.errors ? "bad" : "quiet" }, share(p.errors, p.rate)) },
        { name: "Waited p50 · p99", look: "number", cell: (p) => span(p.wait_p50) + " · " + span(p.wait_p99) },
        { name: "Ran p50 · p99", look: "number", cell: (p) => span(p.run_p50) + " · " + span(p.run_p99) },
        { name: "Ended/s, last hour", look: "wide", cell: (p) => (sparks.has(p.name) ? spark(sparks.get(p.name)) : null) },
      ], o.pools, (p) => p.name)),
      section("The last hour", null, hour.view()),
    ];
  }
  return { title: "Overview", view, live: loadMore, tick: loadMore };
}

export function pool({ name }) {
  const hour = new Hour(name);
  const where = path("v1", "pools", name);
  let info, workers = [], groups, error, next = 0;

  async function load(force) {
    hour.load();
    if (!force && Date.now() < next) return;
    next = Date.now() + 2000;
    try {
      [info, { workers }] = await Promise.all([get(where), get("/v1/workers" + query({ pool: name }))]);
      error = null;
      if (!app.missing.has("groups")) {
        await get(where + "/groups").then((g) => { groups = g; }, (e) => { if (e.nowhere) app.missing.add("groups"); });
      }
    } catch (e) {
      error = e;
    }
    redraw();
  }

  const change = (what, done, body) => act(what + name, done, async () => { info = await send("POST", where + "/" + what, body); next = 0; });

  async function scale() {
    const v = await confirm({
      title: "Scale " + name, text: "How many workers this node may have. It holds until the configuration is read again.", verb: "Scale",
      fields: [
        { name: "min", label: "At least", type: "number", min: 0, max: 65536, step: 1, value: info.min || 0, required: true },
        { name: "max", label: "At most", type: "number", min: 1, max: 65536, step: 1, value: info.max || 1, required: true },
      ],
    });
    if (v) change("scale", name + " is scaled", { min: Number(v.min), max: Number(v.max) });
  }

  async function pause() {
    if (await confirm({ title: "Pause " + name + "?", text: "No node hands out jobs of this pool until it is resumed. What runs goes on, and jobs are still taken in.", verb: "Pause" })) {
      change("pause", name + " is paused");
    }
  }

  async function reload() {
    if (await confirm({ title: "Replace all workers of " + name + "?", text: "New workers are ready before old ones leave, and what runs ends first.", verb: "Replace" })) {
      change("reload", "all workers of " + name + " are new");
    }
  }

  async function limits(g) {
    const l = g.limits || {};
    const v = await confirm({
      title: g.group === undefined ? "Limits of each group" : "Limits of " + g.group, verb: "Set",
      text: "They hold on all nodes at once. 0 is no limit.",
      fields: [
        { name: "concurrency", label: "Jobs at a time", type: "number", min: 0, step: 1, value: l.concurrency || 0 },
        { name: "rate", label: "Jobs a second", type: "number", min: 0, step: "any", value: l.rate || 0 },
        { name: "burst", label: "At once after a pause", type: "number", min: 0, step: 1, value: l.burst || 0 },
      ],
    });
    if (!v) return;
    const body = { concurrency: Number(v.concurrency), rate: Number(v.rate), burst: Number(v.burst) };
    act("limits", "the limits hold", async () => { groups = await send("PUT", where + "/groups" + query({ group: g.group }), body); });
  }

  const limit = (l) => (l && (l.concurrency || l.rate) ? [l.concurrency ? l.concurrency + " at a time" : null, l.rate ? rate(l.rate) + "/s" + (l.burst ? ", " + l.burst + " at once" : "") : null].filter(Boolean).join(" · ") : "none");

  function groupsView() {
    if (!groups) return null;
    const set = button("Set for all", "admin", () => limits({ limits: groups.limits }));
    return section("Groups", set,
      h("p", { class: "quiet" }, "Each group that has no limits of its own: " + limit(groups.limits) + "."),
      groups.groups?.length ? table("Groups", [
        { name: "Group", cell: (g) => link("/jobs" + query({ pool: name, group: g.group }), g.group) },
        { name: "Waiting", look: "number", cell: (g) => count(g.waiting || 0) },
        { name: "Oldest", look: "number", cell: (g) => when(g.oldest) },
        { name: "Running", look: "number", cell: (g) => count(g.running || 0) },
        { name: "Limits", cell: (g) => [limit(g.limits), g.own ? " " : null, g.own ? badge("own", "go") : null] },
        { name: "Actions", hide: true, look: "end", cell: (g) => [
          button("Limits", "admin", () => limits(g), { "aria-label": "Limits of " + g.group }),
          g.own ? button("Reset", "admin", () => act("limits", "the default holds", async () => { groups = await send("DELETE", where + "/groups" + query({ group: g.group })); next = 0; }), { "aria-label": "Reset the limits of " + g.group }) : null,
        ] },
      ], groups.groups, (g) => g.group) : empty("No job of this pool has a group now."));
  }

  const words = (counts) => Object.entries(counts || {}).filter(([, n]) => n).sort((a, b) => b[1] - a[1]).map(([w, n]) => w + " " + count(n)).join(" · ");

  function view() {
    const now = app.overview?.pools.find((p) => p.name === name);
    const head = h("div", { class: "head" },
      h("h1", null, link("/", "Pools", { class: "quiet" }), " / ", name, " ", info ? stateOf(info) : null),
      info ? h("div", { class: "actions" },
        info.paused
          ? button("Resume", "admin", () => change("resume", name + " hands out jobs again"), { primary: true, busy: busy("resume" + name), key: "resume" })
          : button("Pause", "admin", pause, { busy: busy("pause" + name), key: "pause" }),
        info.state === "queue-only" ? null : [
          button("Scale", "admin", scale, { busy: busy("scale" + name), key: "scale" }),
          button("Replace workers", "admin", reload, { busy: busy("reload" + name), key: "reload" }),
        ]) : null);
    if (!info) return [head, error ? fault(error, () => load(true)) : loading()];
    return [
      head,
      error ? fault(error, () => load(true)) : null,
      info.error ? h("div", { class: "fault" }, h("p", null, h("strong", null, "Its workers do not start. "), h("code", null, info.error))) : null,
      now ? tiles(now) : null,
      h("p", { class: "links" }, link("/jobs" + query({ pool: name }), "Its jobs"), link("/dead" + query({ pool: name }), "Its dead letters")),
      section("The last hour", null, hour.view()),
      groupsView(),
      info.state === "queue-only" ? null : section("Workers", null, workersTable(workers, () => { next = 0; load(true); })),
      section("Facts", null, facts([
        ["Program", info.program ? h("code", null, info.program) : "none here: other nodes work the jobs off"],
        ["Protocol", info.protocol], ["Task", info.task],
        ["Workers", info.max ? (info.min || 0) + " to " + info.max + (info.helpers ? ", and " + info.helpers + " helpers" : "") : ""],
        ["Takes ephemeral tasks", info.ephemeral ? "yes" : ""],
        ["By priority", (info.jobs || []).filter((j) => j.waiting || j.taken).map((j) => j.priority + ": " + count(j.waiting || 0) + " waiting, " + count(j.taken || 0) + " taken").join(" · ")],
        ["Outcomes since the start", words(info.outcomes)], ["Never started", count(info.never_started || 0)],
        ["Workers started", count(info.started || 0)], ["Unplanned ends", words(info.deaths)], ["Failed starts", info.failed_starts ? count(info.failed_starts) : ""],
        ["Time to start a worker", info.start_p50 ? span(info.start_p50) : ""],
      ])),
    ];
  }
  return { title: name, view, live: () => load(), tick: () => load(), start: () => load(true) };
}
