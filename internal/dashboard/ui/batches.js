// Batches: how far they are, and what is in them.
import { h, count, share, when } from "./dom.js";
import { get, path, query, send } from "./net.js";
import { busy, Feed, sure } from "./state.js";
import { badge, bar, button, col, crumbs, empty, facts, jobLink, link, num, section, short, shown, table, to } from "./parts.js";
import { columns, Pages, plural } from "./jobs.js";

const over = (b) => b.state === "done" || b.state === "canceled";
const settled = (b) => b?.ended_at && (!b.then || b.then_id);
const state = (b) => badge(b.state, { open: "go", done: b.failed ? "warn" : "ok" }[b.state]);
const progress = (b) => h("span.progress", null, bar(b.ended || 0, b.total || 1, "Ended of all"), h("span", null, count(b.ended || 0) + " of " + (b.state === "open" ? "so far " : "") + count(b.total || 0)), b.failed ? h("span.bad", null, count(b.failed) + " failed") : null);

export function batches() {
	const pages = new Pages((after) => get("/v1/batches" + query({ limit: 50, order: "newest", after })));
	const view = () => [
		h("h1", null, "Batches"),
		shown(pages, ({ batches }) => (batches.length ? table("Batches", [
			col("Batch", (b) => h("strong", null, link(to("batches", b.id), b.key || short(b.id), { title: b.id }))),
			col("State", state),
			col("Progress", progress, "wide"),
			num("Made", (b) => when(b.created)),
			num("Ended", (b) => when(b.ended_at)),
		], batches, (b) => b.id) : empty("There are no batches.", h("p", null, "A batch is jobs that are counted together, with a job that follows when all have ended: ", h("code", null, "bullpen batch submit"), "."))), "This daemon has no batches."),
		pages.bar(),
	];
	return { title: "Batches", view, tick: () => { pages.stale = true; pages.renew(); } };
}

export function batch({ id }) {
	const where = path("v1", "batches", id);
	const feed = new Feed(() => get(where), 2000);
	let last = false; // whether its jobs were read after its end
	const pages = new Pages((after) => get(where + "/jobs" + query({ limit: 50, after })));
	const cancel = () => sure({ title: "Cancel this batch?", text: "Of its " + plural(feed.data.total - (feed.data.ended || 0), "job") + " that have not ended, those that wait never start and those that run are asked to end.", verb: "Cancel batch", danger: true },
		"cancel" + id, "the batch is canceled", async () => { feed.data = await send("POST", where + "/cancel"); pages.load(true); });
	const follower = (job, id) => (job ? [job.task || "a job", " in ", job.pool, " ", jobLink(id)] : "");
	const show = (b) => [
		h("p.id", null, id),
		progress(b),
		facts([
			["Well", count(b.ok || 0)], ["Failed", count(b.failed || 0) + (b.failed ? ", " + share(b.failed, b.ended) + " of those that ended" : "")], ["Canceled", b.canceled ? count(b.canceled) : ""],
			["First failed", jobLink(b.first_failed)], ["Made", when(b.created)], ["Ended", b.ended_at ? when(b.ended_at) : ""],
			["When all have ended", follower(b.then, b.then_id)], ["When one has failed", follower(b.failed_job, b.failed_id)],
			...Object.entries(b.meta || {}).map(([k, v]) => [k, h("code", null, v)]),
		]),
		section("Its jobs", null,
			shown(pages, ({ jobs }) => (jobs.length ? table("Jobs", [num("Number", (j) => j.index ?? 0), columns.id, columns.task, columns.pool, columns.state, columns.attempts, columns.ran, columns.says], jobs, (j) => j.id) : empty("There are none."))),
			pages.bar("Back", "Further")),
	];
	const view = () => {
		const b = feed.data;
		return [
			h("div.head", null, crumbs("/batches", "Batches", b?.key || short(id), " ", b ? state(b) : null),
				!b || over(b) ? null : h("div.actions", null, button("Cancel", "submit", cancel, { danger: true, busy: busy("cancel" + id), key: "cancel" }))),
			shown(feed, show, "There is no such batch, or no more."),
		];
	};
	function tick() {
		if (!settled(feed.data)) {
			feed.load();
			pages.renew();
		} else if (!last) {
			last = true;
			pages.load(true);
		}
	}
	return { title: "Batch", view, tick, live: () => { pages.stale = true; } };
}
