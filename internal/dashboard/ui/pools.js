// The overview of all pools, and the page of one pool.
import { h, brief, count, rate, share, since, span, when, zone } from "./dom.js";
import { get, path, query, send } from "./net.js";
import { act, app, Feed, redraw, sure } from "./state.js";
import { badge, button, code, col, crumbs, empty, facts, ill, link, loading, num, poolLink, quiet, section, shown, state, table, to, tools } from "./parts.js";
import { chart, spark, values } from "./chart.js";
import { workersTable } from "./workers.js";

// past reads the history of a pool, or of all, from five minutes before the daemon began.
async function past(pool) {
	const d = await get("/v1/history" + query({ pool }));
	const all = d.series.running;
	const from = Math.max(0, Math.min(all.findIndex((v) => v !== null), all.length - 30));
	for (const k in d.series) d.series[k] = d.series[k].slice(from);
	return { ...d, from: Date.parse(d.from) + from * d.step * 1000 };
}

// Hour is the history of a pool, or of all, as it comes in.
class Hour extends Feed {
	constructor(pool) {
		super(() => past(pool), 10000);
		this.at = null;
		this.open = false;
	}
	view() {
		return section(["Last hour ", quiet("times in " + zone)], null, shown(this, ({ series, from, step }) => this.charts(series, from, step)));
	}
	charts(s, from, step) {
		const common = { from, step, at: this.at, point: (i) => { if (this.at !== i) { this.at = i; redraw(); } } };
		const line = (name, values, look) => ({ name, values, look });
		const all = [
			{ title: "Waiting", say: count, lines: [line("waiting", s.waiting, "a")] },
			{ title: "Oldest job", say: span, lines: [line("oldest", s.oldest, "a")] },
			{ title: "Running", say: count, lines: [line("running", s.running, "a")] },
			{ title: "Finished per second", say: rate, lines: [line("all", s.rate, "a"), line("errors", s.errors, "bad")] },
			{ title: "Wait time", say: span, lines: [line("p99", s.wait_p99, "b"), line("p50", s.wait_p50, "a")] },
			{ title: "Run time", say: span, lines: [line("p99", s.run_p99, "b"), line("p50", s.run_p50, "a")] },
		];
		return [
			h("div.charts", all.map((c) => chart({ ...common, ...c }))),
			h("details", { ontoggle: (e) => { this.open = e.target.open; redraw(); } }, h("summary", "Show as a table"),
				this.open ? values(all.flatMap((c) => c.lines.map((l) => ({ title: c.lines.length > 1 ? c.title + ", " + l.name : c.title, values: l.values, say: c.say }))), from, step) : null),
		];
	}
}

const tile = (name, value, more, look) => h("div", { class: "tile " + (look || ""), key: name }, quiet(name), h("b", value), h("small.quiet", more || "\u00a0"));

const age = (p) => brief(Math.floor(since(p.oldest)));

// tiles are the numbers of a pool, or of all: then also how many jobs are scheduled.
function tiles(p, scheduled) {
	const of = p.name ? "" : app.overview.pools.find((o) => o.oldest === p.oldest)?.name;
	return h("div.tiles",
		tile("Waiting", count(p.waiting), p.oldest ? (of ? link(to("pools", of), "oldest " + age(p), { title: "in " + of }) : "oldest " + age(p)) : p.waiting ? "" : "nothing waits"),
		tile("Running", count(p.running), p.max ? "on " + count(p.workers) + " of " + count(p.max) + " workers" : "no workers here"),
		scheduled ? tile("Scheduled", count(scheduled), link("/jobs?state=scheduled", "show")) : null,
		tile("Finished", rate(p.rate) + "/s", "in the last seconds"),
		tile("Errors", share(p.errors, p.rate), rate(p.errors) + "/s", p.errors > 0 ? "bad" : ""),
		tile("Wait time", brief(p.wait_p50), "p99 " + brief(p.wait_p99)),
		tile("Run time", brief(p.run_p50), "p99 " + brief(p.run_p99)),
		tile("Dead jobs", count(p.dead), p.dead ? link("/dead" + query({ pool: p.name }), "show") : "none", p.dead ? "warn" : ""));
}

const number = (name, label, value, min = 0) => ({ name, label, type: "number", min, max: 65536, step: 1, value, required: true });

const stateOf = (p) => [p.error ? badge("does not start") : null, p.paused ? badge("paused") : p.error ? null : badge(p.state), !p.error && ill(p) ? badge("failing") : null];

const why = (p, key) => h("div.fault", { key }, h("p", h("strong", key ? [poolLink(key), " has workers that do not start. "] : "Its workers do not start. "), code(p.error)));

export function overview() {
	const hour = new Hour();
	const sparks = new Feed(async () => {
		const all = {};
		for (const p of app.overview.pools.slice(0, 24)) all[p.name] = (await past(p.name)).series.rate;
		return all;
	}, 30000);

	function view() {
		const o = app.overview;
		if (!o) return loading();
		if (o.pools.length === 0) {
			return [h("h1", "Overview"), empty("There are no pools yet.", h("p", "Add one to bullpen.yaml under ", code("pools:"), " and run ", code("bullpen reload"), "."))];
		}
		return [
			h("h1", "Overview"),
			tiles(o.totals, o.scheduled),
			o.pools.filter((p) => p.error).slice(0, 3).map((p) => why(p, p.name)),
			section("Pools", null, table("Pools", [
				col("Pool", (p) => h("strong", poolLink(p.name))),
				state(stateOf),
				num("Waiting", (p) => count(p.waiting)),
				num("Oldest", (p) => (p.oldest ? h("span", { title: p.oldest }, age(p)) : "–")),
				num("Running", (p) => count(p.running)),
				num("Workers", (p) => (p.max ? p.workers + "/" + p.max : "–")),
				num("Finished/s", (p) => rate(p.rate)),
				num("Errors", (p) => h("span", { class: p.errors ? "bad" : "quiet" }, share(p.errors, p.rate))),
				num("Wait p50 · p99", (p) => (p.wait_p99 ? brief(p.wait_p50) + " · " + brief(p.wait_p99) : "–")),
				num("Run p50 · p99", (p) => (p.run_p99 ? brief(p.run_p50) + " · " + brief(p.run_p99) : "–")),
				col("Finished/s, last hour", (p) => (sparks.data?.[p.name] ? spark(sparks.data[p.name]) : null), "wide"),
			], o.pools, (p) => p.name, (p) => (ill(p) ? "ill" : ""))),
			hour.view(),
		];
	}
	return { title: "Overview", view, tick: () => { hour.load(); if (app.overview) sparks.load(); } };
}

export function pool({ name }) {
	const where = path("v1", "pools", name);
	const hour = new Hour(name);
	const info = new Feed(() => get(where), 2000);
	const workers = new Feed(() => get("/v1/workers" + query({ pool: name })), 2000);
	const groups = new Feed(() => get(where + "/groups"), 3000);

	const post = (what, body) => async () => { info.data = await send("POST", where + "/" + what, body?.()); };
	const resume = () => act("resume", name + " runs jobs again", post("resume"));
	const pause = () => sure({ title: "Pause " + name + "?", text: "No node starts jobs of this pool until you resume it. Running jobs continue, and new jobs are still accepted.", verb: "Pause" }, "pause", name + " was paused", post("pause"));
	const reload = () => sure({ title: "Replace all workers of " + name + "?", text: "New workers are ready before the old ones end; running tasks are finished first.", verb: "Replace" }, "reload", "all workers of " + name + " were replaced", post("reload"));
	const scale = () => sure({
		title: "Scale " + name, text: "How many workers this node may run, until the configuration is reloaded.", verb: "Scale",
		fields: [number("min", "Minimum", info.data.min || 0), number("max", "Maximum", info.data.max || 1, 1)],
	}, "scale", name + " was scaled", async (v) => { info.data = await send("POST", where + "/scale", { min: Number(v.min), max: Number(v.max) }); });

	const limits = (g) => sure({
		title: g.group === undefined ? "Default limits of groups" : "Limits of " + g.group, verb: "Set", text: "They apply at once on all nodes. 0 means no limit.",
		fields: [number("concurrency", "Jobs at a time", g.limits?.concurrency || 0), { ...number("rate", "Jobs per second", g.limits?.rate || 0), step: "any" }, number("burst", "At once after a pause", g.limits?.burst || 0)],
	}, "limits", "the limits were set", async (v) => {
		groups.data = await send("PUT", where + "/groups" + query({ group: g.group }), { concurrency: Number(v.concurrency), rate: Number(v.rate), burst: Number(v.burst) });
	});
	const reset = (g) => act("limits", "the default limits apply to " + g.group, async () => { await send("DELETE", where + "/groups" + query({ group: g.group })); groups.load(true); });

	const limit = (l) => (l && (l.concurrency || l.rate) ? [l.concurrency ? l.concurrency + " at a time" : null, l.rate ? rate(l.rate) + "/s" + (l.burst ? ", " + l.burst + " at once" : "") : null].filter(Boolean).join(" · ") : "none");

	const groupsView = (d) => [
		h("p.quiet", "Limits of groups without their own: " + limit(d.limits) + "."),
		d.groups?.length ? table("Groups", [
			col("Group", (g) => link("/jobs" + query({ pool: name, group: g.group }), g.group)),
			num("Waiting", (g) => count(g.waiting || 0)),
			num("Oldest", (g) => when(g.oldest)),
			num("Running", (g) => count(g.running || 0)),
			col("Limits", (g) => [limit(g.limits), " ", g.own ? badge("own", "go") : null]),
			tools((g) => [
				button("Limits", "admin", () => limits(g), { "aria-label": "Limits of " + g.group }),
				g.own ? button("Reset", "admin", () => reset(g), { "aria-label": "Reset the limits of " + g.group }) : null,
			]),
		], d.groups, (g) => g.group) : empty("No job of this pool has a group now."),
	];

	const words = (counts) => Object.entries(counts || {}).filter(([, n]) => n).sort((a, b) => b[1] - a[1]).map(([w, n]) => w + " " + count(n)).join(" · ");

	const factsOf = (p) => facts([
		["Program", p.program ? code(p.program) : "none: other nodes run its jobs"],
		["Protocol", p.protocol], ["Task", p.task],
		["Workers", p.max ? (p.min || 0) + " to " + p.max + (p.helpers ? ", and " + p.helpers + " helpers" : "") : ""],
		["Ephemeral tasks", p.ephemeral ? "allowed" : ""],
		["By priority", (p.jobs || []).filter((j) => j.waiting || j.taken).map((j) => j.priority + ": " + count(j.waiting || 0) + " waiting, " + count(j.taken || 0) + " taken").join(" · ")],
		["Outcomes since start", words(p.outcomes)], ["Never started", count(p.never_started)],
		["Workers started", count(p.started)], ["Unexpected exits", words(p.deaths)], ["Failed starts", count(p.failed_starts)],
		["Time to start a worker", span(p.start_p50)],
	]);

	function view() {
		const p = info.data;
		const now = app.overview?.pools.find((o) => o.name === name);
		return [
			h("div.head",
				crumbs("/", "Pools", name, " ", p ? stateOf(p) : null),
				p ? h("div.actions",
					p.paused ? button("Resume", "admin", resume, { primary: true, does: "resume" }) : button("Pause", "admin", pause, { does: "pause" }),
					p.state === "queue-only" ? null : [
						button("Scale", "admin", scale, { does: "scale" }),
						button("Replace workers", "admin", reload, { does: "reload" }),
					]) : null),
			shown(info, () => [
				p.error ? why(p) : null,
				now ? tiles(now) : null,
				h("p.links", link("/jobs" + query({ pool: name }), "Show jobs"), link("/dead" + query({ pool: name }), "Show dead jobs")),
				hour.view(),
				section("Groups", groups.data ? button("Default limits", "admin", () => limits({ limits: groups.data.limits })) : null, shown(groups, groupsView, "This daemon has no groups.")),
				p.state === "queue-only" ? null : section("Workers", null, shown(workers, (d) => workersTable(d.workers, workers.again))),
				section("Details", null, factsOf(p)),
			], "This pool does not exist."),
		];
	}
	return { title: name, view, tick: () => { for (const f of [hour, info, workers, groups]) f.load(); } };
}
