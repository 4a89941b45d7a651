// Lists of jobs: by state, searched, many at a time.
import { h, count, relative, span, when } from "./dom.js";
import { get, query } from "./net.js";
import { app, busy, Feed, many, may, redraw, sure } from "./state.js";
import { badge, bar, button, chip, col, empty, jobLink, num, poolChoice, poolLink, quiet, searchBox, shown, table, taken } from "./parts.js";

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
			name: "Pick", hide: true, look: "pick",
			head: h("input", { type: "checkbox", "aria-label": "Pick all of this page", checked: all, indeterminate: some && !all, onchange: () => { for (const r of rows) if (all === this.has(r.id)) this.flip(r.id); } }),
			cell: (r) => h("input", { type: "checkbox", "aria-label": "Pick " + r.id, checked: this.has(r.id), onchange: () => this.flip(r.id) }),
		};
	}
	// bar shows how many are picked, and what can be done with them.
	bar(...actions) {
		return this.size ? h("div.picked", { role: "region", "aria-label": "Picked jobs" }, h("b", null, plural(this.size, "job") + " picked"), actions,
			button("Pick none", "read", () => { this.clear(); redraw(); })) : null;
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
		const turn = (label, can, f) => button(label, "read", () => { f(); this.load(true).then(() => window.scrollTo(0, 0)); }, { off: !can });
		return h("nav.pages", { "aria-label": "Pages of the list" },
			turn(back, this.before.length, () => { this.at = this.before.pop(); }),
			quiet("page " + (this.before.length + 1)),
			turn(on, next, () => { this.before.push(this.at); this.at = next; }));
	}
}

const states = ["queued", "running", "scheduled", "retrying", "done", "canceled"];

const says = (j) => {
	if (j.error) return h("span", { class: j.state === "done" ? "quiet clip" : "bad clip", title: j.error }, j.error);
	if (j.state === "running" && j.progress) return h("span.clip", null, Math.round(j.progress * 100) + "% " + (j.note || ""));
	return j.at && (j.state === "scheduled" || j.state === "retrying") ? quiet(relative(j.at)) : null;
};

export const columns = {
	id: col("Job", (j) => h("strong", null, jobLink(j.id))),
	task: col("Task", (j) => h("span.clip", { title: j.task }, j.task || "–")),
	pool: col("Pool", (j) => poolLink(j.pool)),
	state: col("State", (j) => badge(j.state)),
	attempts: num("Attempts", (j) => j.attempts || "–"),
	enqueued: num("Handed in", (j) => when(j.enqueued)),
	ran: num("Ran", (j) => (j.ran ? span(j.ran) : "–")),
	group: col("Group", (j) => h("span.clip", { title: j.group }, j.group || "–")),
	says: col("Says", says, "wide"),
};

export function jobs(params) {
	const picked = new Picked();
	const filter = {};
	for (const k of ["state", "pool", "task", "search", "group", "schedule", "batch"]) filter[k] = params[k] || "";
	const pages = new Pages((after) => get("/v1/jobs" + query({ ...filter, limit: 50, order: "newest", after })));
	const go = (more) => { location.hash = "#/jobs" + query({ ...filter, ...more }); };

	const each = (verb, done, ask) => sure({ ...ask, verb: ask.verb + " " + plural(picked.size, "job") }, verb, (n) => plural(n, "job") + " " + done, async () => {
		const n = await many("/v1/jobs/" + verb, { ids: [...picked] }, done);
		picked.clear();
		pages.load(true);
		return n;
	});
	const cancel = () => each("cancel", "canceled", { title: "Cancel " + plural(picked.size, "job") + "?", text: "Those that wait never start; those that run are asked to end.", verb: "Cancel", danger: true });
	const retry = () => each("retry", "enqueued again", { title: "Try " + plural(picked.size, "job") + " again?", text: "Each dead one is enqueued again as a new job; others are left as they are.", verb: "Retry" });

	function view() {
		const others = ["task", "group", "schedule", "batch"].filter((k) => filter[k]);
		const none = (next) => empty(next ? "None on this page; there is more to look through." : others.length || filter.search || filter.state || filter.pool ? "No job fits." : "There are no jobs.",
			next ? null : h("p", null, filter.search || others.length ? h("a", { href: "#/jobs" }, "Show all jobs") : ["Hand one in: ", h("code", null, "bullpen submit POOL 'payload'")]));
		return [
			h("h1", null, "Jobs"),
			h("div.chips", { role: "group", "aria-label": "State" }, ["", ...states].map((s) => chip(s || "all", filter.state === s, () => go({ state: s }))),
				h("a.chip", { href: "#/dead" + query({ pool: filter.pool }) }, "dead")),
			h("div.filters", null,
				poolChoice(filter.pool, (v) => go({ pool: v })),
				searchBox(filter.search, (v) => { if (v !== filter.search) go({ search: v }); }),
				others.map((k) => taken(k + ": " + filter[k], () => go({ [k]: "" })))),
			picked.bar(button("Retry", "submit", retry, { busy: busy("retry"), key: "r" }), button("Cancel jobs", "submit", cancel, { danger: true, busy: busy("cancel"), key: "c" })),
			shown(pages, ({ jobs, next }) => (jobs.length ? table("Jobs", [may("submit") ? picked.column(jobs) : null, columns.id, columns.task, filter.pool ? null : columns.pool, filter.state ? null : columns.state, columns.attempts, columns.enqueued, columns.ran, jobs.some((r) => r.group) ? columns.group : null, columns.says], jobs, (j) => j.id) : none(next))),
			pages.bar(),
		];
	}
	return { title: "Jobs", view, live: () => { pages.stale = true; }, tick: () => { if (!picked.size) pages.renew(); }, escape: () => { picked.clear(); redraw(); } };
}
