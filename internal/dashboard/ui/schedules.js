// Schedules: when they come next, and how it went last.
import { h, count, exactOf, span, when } from "./dom.js";
import { get, path, query, send } from "./net.js";
import { act, Feed, sure } from "./state.js";
import { Content } from "./content.js";
import { badge, button, code, col, crumbs, empty, facts, jobLink, link, num, poolLink, quiet, section, shown, table, to, tools } from "./parts.js";

const rule = (s) => (s.cron ? [code(s.cron), s.zone ? quiet(" " + s.zone) : null] : "every " + span(s.every));

function actions(s, changed) {
	const where = path("v1", "schedules", s.name);
	const run = () => sure({ title: "Run " + s.name + " now?", text: "Its job is enqueued once. The next ticks do not change.", verb: "Run now" },
		"run" + s.name, (ref) => "enqueued as " + ref.id, async () => { const ref = await send("POST", where + "/run"); changed(); return ref; });
	const verb = s.paused ? "Resume" : "Pause";
	const turn = () => act("pause" + s.name, s.name + (s.paused ? " was resumed" : " was paused"), async () => { await send("POST", where + "/" + verb.toLowerCase()); changed(); });
	return [
		button("Run now", "submit", run, { does: "run" + s.name, "aria-label": "Run " + s.name + " now" }),
		button(verb, "admin", turn, { does: "pause" + s.name, "aria-label": verb + " " + s.name }),
	];
}

const last = (s) => [s.last ? when(s.last) : quiet("never"), " ", jobLink(s.last_job), " ", badge(s.last_state)];

export function schedules() {
	const all = new Feed(() => get("/v1/schedules"));
	const view = () => [
		h("h1", "Schedules"),
		shown(all, (d) => (d.schedules.length ? table("Schedules", [
			col("Schedule", (s) => h("strong", link(to("schedules", s.name), s.name))),
			col("Rule", rule),
			col("Pool", (s) => poolLink(s.pool)),
			num("Next", (s) => (s.paused ? badge("paused") : when(s.next))),
			col("Last", last),
			num("Fired", (s) => count(s.fired || 0)),
			num("Skipped", (s) => (s.skipped ? count(s.skipped) : "–")),
			d.schedules.some((s) => s.error) ? col("Error", (s) => (s.error ? h("span.bad.clip", { title: s.error }, s.error) : null), "wide") : null,
			tools((s) => actions(s, all.again)),
		], d.schedules, (s) => s.name) : empty("There are no schedules.", h("p", "Add one to bullpen.yaml under ", code("schedules:"), ", or with ", code("bullpen schedule add"), "."))), "This daemon has no schedules."),
	];
	return { title: "Schedules", view, tick: () => all.load() };
}

export function schedule({ name }) {
	const where = path("v1", "schedules", name);
	const feed = new Feed(() => get(where));
	const remove = () => sure({ title: "Remove " + name + "?", text: "It enqueues no more jobs. Jobs that it has enqueued stay.", verb: "Remove", danger: true },
		"remove" + name, name + " was removed", async () => { await send("DELETE", where); location.hash = "#/schedules"; });
	let content, payload;
	// shownPayload is what its jobs get, text or bytes.
	function shownPayload(j) {
		const now = j?.payload_base64 || j?.payload;
		if (!now) return null;
		if (now !== payload) {
			payload = now;
			const b = j.payload_base64 ? Uint8Array.from(atob(now), (c) => c.charCodeAt(0)) : new TextEncoder().encode(now);
			content = new Content("", "payload").take({ bytes: b, cut: false, size: b.length });
		}
		return section("Payload", null, content.view());
	}
	const show = (s) => [
		s.error ? h("div.fault", h("p", s.error)) : null,
		facts([
			["Rule", rule(s)], ["Next", s.paused ? "" : (s.upcoming || []).map((t) => h("div", when(t), " ", quiet(t)))], ["Last", [last(s), " ", s.last ? quiet(exactOf(s.last)) : null]], ["Fired", count(s.fired || 0)], ["Skipped", count(s.skipped || 0)],
			["Missed ticks", { once: "run the latest", skip: "skipped", all: "run all" }[s.missed] || s.missed], ["Overlap", s.overlap === "forbid" ? "forbidden" : "allowed"],
			["Defined in", s.origin === "config" ? "bullpen.yaml: change it there" : "the API"], ["Pool", poolLink(s.pool)], ["Task", s.job?.task], ["Group", s.job?.group],
		]),
		h("p.links", link("/jobs" + query({ schedule: name }), "Show jobs")),
		shownPayload(s.job),
	];
	const view = () => {
		const s = feed.data;
		return [
			h("div.head", crumbs("/schedules", "Schedules", name, " ", s?.paused ? badge("paused") : null),
				s ? h("div.actions", actions(s, feed.again), s.origin === "config" ? null : button("Remove", "admin", remove, { danger: true, does: "remove" + name })) : null),
			shown(feed, show, "This schedule does not exist."),
		];
	};
	return { title: name, view, tick: () => feed.load() };
}
