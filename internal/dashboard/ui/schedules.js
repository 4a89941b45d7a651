// Schedules: when they come next, and how it went last.
import { h, count, span, when } from "./dom.js";
import { get, path, query, send } from "./net.js";
import { act, busy, Feed, sure } from "./state.js";
import { badge, button, col, crumbs, empty, facts, jobLink, link, num, poolLink, quiet, section, shown, table, to, tools } from "./parts.js";

const rule = (s) => (s.cron ? [h("code", null, s.cron), s.zone ? quiet(" " + s.zone) : null] : "every " + span(s.every));

function actions(s, changed) {
	const where = path("v1", "schedules", s.name);
	const run = () => sure({ title: "Run " + s.name + " now?", text: "Its job is enqueued once more. The ticks to come stay as they are.", verb: "Run now" },
		"run" + s.name, (ref) => "enqueued as " + ref.id, async () => { const ref = await send("POST", where + "/run"); changed(); return ref; });
	const verb = s.paused ? "Resume" : "Pause";
	const turn = () => act("pause" + s.name, s.name + (s.paused ? " goes on" : " is paused"), async () => { await send("POST", where + "/" + verb.toLowerCase()); changed(); });
	return [
		button("Run now", "submit", run, { busy: busy("run" + s.name), "aria-label": "Run " + s.name + " now", key: "run" }),
		button(verb, "admin", turn, { busy: busy("pause" + s.name), "aria-label": verb + " " + s.name, key: "pause" }),
	];
}

const last = (s) => [s.last ? when(s.last) : quiet("never"), " ", jobLink(s.last_job), " ", badge(s.last_state)];

export function schedules() {
	const all = new Feed(() => get("/v1/schedules"));
	const view = () => [
		h("h1", null, "Schedules"),
		shown(all, (d) => (d.schedules.length ? table("Schedules", [
			col("Schedule", (s) => h("strong", null, link(to("schedules", s.name), s.name))),
			col("Rule", rule),
			col("Pool", (s) => poolLink(s.pool)),
			num("Next", (s) => (s.paused ? badge("paused") : when(s.next))),
			col("Last", last),
			num("Fired", (s) => count(s.fired || 0)),
			num("Skipped", (s) => (s.skipped ? count(s.skipped) : "–")),
			d.schedules.some((s) => s.error) ? col("Fault", (s) => (s.error ? h("span.bad.clip", { title: s.error }, s.error) : null), "wide") : null,
			tools((s) => actions(s, all.again)),
		], d.schedules, (s) => s.name) : empty("There are no schedules.", h("p", null, "Add one to bullpen.yaml under ", h("code", null, "schedules:"), ", or by ", h("code", null, "bullpen schedule add"), "."))), "This daemon has no schedules."),
	];
	return { title: "Schedules", view, tick: () => all.load() };
}

export function schedule({ name }) {
	const where = path("v1", "schedules", name);
	const feed = new Feed(() => get(where));
	const remove = () => sure({ title: "Remove " + name + "?", text: "It fires no more. Jobs that it has enqueued stay.", verb: "Remove", danger: true },
		"remove" + name, name + " is removed", async () => { await send("DELETE", where); location.hash = "#/schedules"; });
	const show = (s) => [
		s.error ? h("div.fault", null, h("p", null, s.error)) : null,
		facts([
			["Rule", rule(s)], ["Next", s.paused ? "" : when(s.next)], ["Last", last(s)], ["Fired", count(s.fired || 0)], ["Skipped", count(s.skipped || 0)],
			["Missed ticks", { once: "made up for once", skip: "left out", all: "each made up for" }[s.missed] || s.missed], ["While one runs", s.overlap === "forbid" ? "no second one" : "another one may run"],
			["Comes from", s.origin === "config" ? "bullpen.yaml: it is changed there" : "the API"], ["Pool", poolLink(s.pool)], ["Task", s.job?.task], ["Group", s.job?.group],
		]),
		h("p.links", null, link("/jobs" + query({ schedule: name }), "Its jobs")),
		s.job?.payload ? section("Payload", null, h("pre.content", { tabindex: 0 }, s.job.payload)) : null,
	];
	const view = () => {
		const s = feed.data;
		return [
			h("div.head", null, crumbs("/schedules", "Schedules", name, " ", s?.paused ? badge("paused") : null),
				s ? h("div.actions", null, actions(s, feed.again), s.origin === "config" ? null : button("Remove", "admin", remove, { danger: true, busy: busy("remove" + name), key: "remove" })) : null),
			shown(feed, show, "There is no such schedule."),
		];
	};
	return { title: name, view, tick: () => feed.load() };
}
