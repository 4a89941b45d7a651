// The workers of this node.
import { h, bytes, count, span } from "./dom.js";
import { get, path, query, send } from "./net.js";
import { app, Feed, sure } from "./state.js";
import { badge, button, col, empty, jobLink, num, poolChoice, poolLink, quiet, shown, state, table, tools } from "./parts.js";

const isJob = (id) => /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(id);

export function workersTable(workers, changed, withPool) {
	const recycle = (w) => sure({ title: "Replace " + w.id + "?", text: "A new worker is ready before this one ends" + (w.in_hand ? "; its tasks are finished first." : "."), verb: "Replace" },
		"recycle" + w.id, w.id + " is being replaced", () => send("POST", path("v1", "workers", w.id, "recycle") + query({ pool: w.pool })).then(changed));
	const hand = (w) => (w.in_hand ? [
		w.task_name ? w.task_name + " " : null,
		w.task ? (isJob(w.task) ? jobLink(w.task) : h("span.id", w.task)) : null,
		quiet((w.task_age ? " for " + span(w.task_age) : "") + (w.in_hand > 1 ? " and " + (w.in_hand - 1) + " more" : "")),
	] : "–");
	if (!workers.length) return empty("There are no workers now. One starts when a task arrives.");
	return table("Workers", [
		col("Worker", (w) => h("strong", w.id)),
		withPool ? { name: "Pool", cell: (w) => poolLink(w.pool) } : null,
		state((w) => [badge(w.state), w.idle ? quiet(" for " + span(w.idle)) : null, w.recycling && w.state !== "leaving" ? badge("being replaced", "warn") : null]),
		num("Process", (w) => w.pid || "–"),
		col("Running", hand),
		num("Tasks done", (w) => count(w.tasks)),
		num("Memory", (w) => (w.memory ? bytes(w.memory) : "–")),
		num("Age", (w) => span(w.age)),
		tools((w) => button("Replace", "admin", () => recycle(w), { does: "recycle" + w.id, off: w.recycling || w.state === "leaving", "aria-label": "Replace " + w.id })),
	], workers, (w) => w.pool + " " + w.id);
}

export function workers({ pool }) {
	const all = new Feed(() => get("/v1/workers" + query({ pool })), 2000);
	const view = () => [
		h("h1", "Workers"),
		h("div.filters", poolChoice(pool || "", (v) => { location.hash = "#/workers" + query({ pool: v }); })),
		shown(all, (d) => workersTable(d.workers, all.again, true)),
		h("p.quiet", "These are the workers of the node that serves this page" + (app.me.node ? ", " + app.me.node : "") + "."),
	];
	return { title: "Workers", view, tick: () => all.load() };
}
