// Lists of jobs: by state, searched, many at a time.
import { h, count, relative, span, when } from "./dom.js";
import { get, query } from "./net.js";
import { app, Feed, many, may, redraw, sure } from "./state.js";
import { badge, batchName, button, chip, code, col, empty, jobLink, num, poolChoice, poolLink, quiet, searchBox, shown, state, table, taken } from "./parts.js";

export const plural = (n, one) => count(n) + " " + one + (n === 1 ? "" : "s");

// Picked is which rows of a list a person has picked.
export class Picked extends Set {
	flip(id) {
		if (!this.delete(id)) this.add(id);
		redraw();
	}
	column(rows) {
		const some = rows.some((r) => this.has(r.id));
		const all = some && rows.every((r) => this.has(r.id));
		return {
			name: "Select", hide: true, look: "pick",
			head: h("input", { type: "checkbox", "aria-label": "Select all on this page", checked: all, indeterminate: some && !all, onchange: () => { for (const r of rows) if (all === this.has(r.id)) this.flip(r.id); } }),
			cell: (r) => h("input", { type: "checkbox", "aria-label": "Select " + r.id, checked: this.has(r.id), onchange: () => this.flip(r.id) }),
		};
	}
	// bar shows how many are picked, and what can be done with them.
	bar(...actions) {
		return this.size ? h("div.picked", { role: "region", "aria-label": "Selected jobs" }, h("b", plural(this.size, "job") + " selected"), actions,
			button("Clear selection", "read", () => { this.clear(); redraw(); })) : null;
	}
}

// Pages is a list that is read a page at a time. Only the first page renews itself,
// when something has changed.
export class Pages extends Feed {
	constructor(read, every) {
		super(() => read(this.at), every);
		this.before = []; // where the pages before began
		this.at = "";
		this.stale = true;
	}
	renew() {
		if (!this.stale || this.before.length || app.ask || Date.now() < this.due) return;
		this.stale = false;
		this.load();
	}
	bar(back = "Newer", on = "Older") {
		const next = this.data?.next;
		if (!this.before.length && !next) return null;
		const turn = (label, can, f) => button(label, "read", async () => {
			f();
			this.turning = true; // its next page is not known yet
			await this.load(true);
			this.turning = false;
			redraw();
			window.scrollTo(0, 0);
		}, { off: !can || this.turning });
		return h("nav.pages", { "aria-label": "Pages of the list" },
			turn(back, this.before.length, () => { this.at = this.before.pop(); }),
			quiet("page " + (this.before.length + 1)),
			turn(on, next, () => { this.before.push(this.at); this.at = next; }));
	}
}

const states = ["queued", "running", "scheduled", "retrying", "done", "canceled"];

const stateOf = (j) => [badge(j.state), j.state === "running" && j.progress ? h("span.clip", " " + Math.round(j.progress * 100) + "% " + (j.note || ""))
	: j.at && (j.state === "scheduled" || j.state === "retrying") ? quiet(" " + relative(j.at)) : null];

const clip = (text, look = "") => (text ? h("span", { class: "clip " + look, title: text }, text) : "–");

export const columns = {
	id: col("Job", (j) => h("strong", jobLink(j.id))),
	task: col("Task", (j) => clip(j.task)),
	key: col("Key", (j) => clip(j.key, "key")),
	pool: col("Pool", (j) => poolLink(j.pool)),
	state: state(stateOf),
	attempts: num("Attempts", (j) => j.attempts || "–"),
	enqueued: num("Enqueued", (j) => when(j.enqueued)),
	ran: num("Run time", (j) => (j.ran ? span(j.ran) : "–")),
	group: col("Group", (j) => clip(j.group)),
	error: col("Error", (j) => clip(j.error, j.state === "dead" || j.state === "retrying" ? "bad" : "quiet"), "wide"),
};

// some is the columns of these names of which a row has something.
export const some = (rows, ...names) => names.map((n) => (rows.some((r) => r[n]) ? columns[n] : null));

export function jobs(params) {
	const picked = new Picked();
	const filter = {};
	for (const k of ["state", "pool", "task", "search", "group", "schedule", "batch"]) filter[k] = params[k] || "";
	const pages = new Pages((after) => get("/v1/jobs" + query({ ...filter, limit: 50, order: "newest", after })));
	// Of states that the overview does not count, a part is listed.
	const listed = new Feed(async () => {
		const all = {};
		for (const s of states.slice(2)) {
			const p = await get("/v1/jobs" + query({ pool: filter.pool, state: s, limit: 100, order: "newest" }));
			all[s] = p.jobs.length + (p.next ? "+" : "");
		}
		return all;
	}, 15000);
	const others = ["task", "group", "schedule", "batch"].filter((k) => filter[k]);
	function counted(s) {
		const p = filter.pool ? app.overview?.pools.find((o) => o.name === filter.pool) : app.overview?.totals;
		return others.length || filter.search ? null : { queued: p?.waiting, running: p?.taken, dead: p?.dead }[s] ?? listed.data?.[s];
	}
	const label = (s) => { const n = counted(s); return [s, n === undefined || n === null ? null : h("b", n > 999 ? count(n) : n)]; };
	const go = (more) => { location.hash = "#/jobs" + query({ ...filter, ...more }); };

	const each = (verb, done, ask) => sure({ ...ask, verb: ask.verb + " " + plural(picked.size, "job") }, verb, (n) => plural(n, "job") + " " + done, async () => {
		const n = await many("/v1/jobs/" + verb, { ids: [...picked] }, done);
		picked.clear();
		pages.load(true);
		return n;
	});
	const cancel = () => each("cancel", "canceled", { title: "Cancel " + plural(picked.size, "job") + "?", text: "Waiting jobs never start; running jobs are asked to end.", verb: "Cancel", danger: true });
	const retry = () => each("retry", "enqueued again", { title: "Retry " + plural(picked.size, "job") + "?", text: "Each job that has ended is enqueued again as a new job; the others stay unchanged.", verb: "Retry" });

	function view() {
		const none = (next) => empty(next ? "No match on this page; there are more pages." : others.length || filter.search || filter.state || filter.pool ? "No job matches the filters." : "There are no jobs.",
			next ? null : h("p", filter.search || others.length ? h("a", { href: "#/jobs" }, "Show all jobs") : ["Submit one: ", code("bullpen submit POOL 'payload'")]));
		return [
			h("h1", "Jobs"),
			h("div.chips", { role: "group", "aria-label": "State" }, ["", ...states].map((s) => chip(s ? label(s) : "all", filter.state === s, () => go({ state: s }), { key: s })),
				h("a.chip", { href: "#/dead" + query({ pool: filter.pool }) }, label("dead"))),
			h("div.filters",
				poolChoice(filter.pool, (v) => go({ pool: v })),
				searchBox(filter.search, (v) => { if (v !== filter.search) go({ search: v }); }),
				others.map((k) => taken(k + ": " + (k === "batch" ? batchName(filter.batch) : filter[k]), () => go({ [k]: "" })))),
			picked.bar(button("Retry", "submit", retry, { does: "retry" }), button("Cancel jobs", "submit", cancel, { danger: true, does: "cancel" })),
			shown(pages, ({ jobs, next }) => (jobs.length ? table("Jobs", [may("submit") ? picked.column(jobs) : null, columns.id, columns.task, some(jobs, "key"), filter.pool ? null : columns.pool, columns.state, columns.attempts, columns.enqueued, columns.ran, some(jobs, "group", "error")], jobs, (j) => j.id) : none(next))),
			pages.bar(),
		];
	}
	return { title: "Jobs", view, live: () => { pages.stale = true; }, tick: () => { if (!picked.size) pages.renew(); if (!others.length && !filter.search) listed.load(); }, escape: () => { picked.clear(); redraw(); } };
}
