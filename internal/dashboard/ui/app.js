// The frame of all pages: who is asking, which page it is, and the live connection.
import { h, draw, span } from "./dom.js";
import { follow, get, hasToken, setToken, whenUnauthorized } from "./net.js";
import { app, confirm, may, note, paintWith, redraw } from "./state.js";
import { button, code, dialog, ill, link, loading } from "./parts.js";
import { overview, pool } from "./pools.js";
import { jobs } from "./jobs.js";
import { job } from "./job.js";
import { dead } from "./dead.js";
import { workers } from "./workers.js";
import { schedule, schedules } from "./schedules.js";
import { batch, batches } from "./batches.js";

const menu = [
	{ name: "Overview", to: "/", key: "o", pages: ["", "pools"] },
	{ name: "Jobs", to: "/jobs", key: "j", pages: ["jobs"] },
	{ name: ["Dead", h("span.more", " jobs")], to: "/dead", key: "d", pages: ["dead"] },
	{ name: "Workers", to: "/workers", key: "w", pages: ["workers"] },
	{ name: "Schedules", to: "/schedules", key: "s", pages: ["schedules"] },
	{ name: "Batches", to: "/batches", key: "b", pages: ["batches"] },
];

const pages = {
	"": [overview], pools: [overview, (name) => pool({ name })], jobs: [jobs, (id) => job({ id })], dead: [dead, (id) => job({ id })],
	workers: [workers], schedules: [schedules, (name) => schedule({ name })], batches: [batches, (id) => batch({ id })],
};

let page = null, place = "", stopLive = null;
const root = document.getElementById("app");

function read() {
	const [where, text] = location.hash.replace(/^#\/?/, "").split("?");
	const parts = where.split("/").filter(Boolean).map((p) => { try { return decodeURIComponent(p); } catch { return p; } });
	return { name: parts[0] || "", id: parts[1], params: Object.fromEntries(new URLSearchParams(text || "")) };
}

function open() {
	if (!app.me) return;
	const at = read();
	const [all, one] = pages[at.name] || [];
	page?.close?.();
	const make = at.id !== undefined ? one && (() => one(at.id)) : all && (() => all(at.params));
	page = make ? make() : { title: "Not found", view: () => [h("h1", "This page does not exist"), h("p", link("/", "Go to the overview"))] };
	const moved = place !== at.name + "/" + (at.id || "");
	place = at.name + "/" + (at.id || "");
	app.ask?.answer(false);
	page.start?.();
	page.tick?.();
	redraw();
	if (!moved) return;
	window.scrollTo(0, 0);
	const from = document.activeElement;
	// The focus moves from a page that is gone to the new one; in the menu it stays.
	if (from !== document.body && !from.closest("nav")) requestAnimationFrame(() => {
		if ([from, document.body].includes(document.activeElement)) document.getElementById("main")?.focus({ preventScroll: true });
	});
}

let loginFault = "";

async function begin() {
	try {
		app.me = await get("/v1/me");
		app.login = false;
		loginFault = "";
	} catch (e) {
		if (e.status === 401) return;
		app.startFault = e;
		redraw();
		setTimeout(begin, 2000);
		return;
	}
	app.startFault = null;
	stopLive?.();
	stopLive = follow("/v1/overview/events", {
		open: () => { app.lost = 0; redraw(); },
		lost: () => { app.lost ||= Date.now(); redraw(); },
		refused: (e) => { if (e.status !== 401) note(e.message, true); },
		event: (kind, data) => {
			if (kind !== "overview") return;
			app.overview = data;
			app.lost = 0;
			page?.live?.();
			redraw();
		},
	});
	open();
}

whenUnauthorized((body) => {
	if (app.login && !hasToken()) return;
	loginFault = hasToken() ? body.detail || "The token is not valid for this daemon." : "";
	leave();
	app.login = true;
	redraw();
});

function leave() {
	setToken("");
	stopLive?.();
	page?.close?.();
	stopLive = page = app.me = app.overview = null;
}

function loginView() {
	return h("main.login", { id: "main", tabindex: -1 },
		h("form", {
			onsubmit: (e) => {
				e.preventDefault();
				const t = e.target.querySelector("input").value.trim();
				if (!t) return;
				setToken(t);
				begin();
			},
		},
		h("h1", "Bullpen"),
		h("p", "This daemon requires a token: use one from the file ", code("http.tokens"), " of its configuration."),
		h("label.field", h("span", "Token"), h("input", { type: "password", name: "token", autocomplete: "current-password", required: true, autofocus: true, made: (el) => el.focus(), "aria-describedby": "kept" })),
		loginFault ? h("p.bad", { role: "alert" }, loginFault) : null,
		h("button", { type: "submit", class: "button primary" }, "Log in"),
		h("p.quiet", { id: "kept" }, "The token is kept in this tab until you close the tab.")));
}

function frame() {
	const here = read().name;
	const bad = (app.overview?.pools || []).filter(ill).length;
	document.title = (bad ? "(" + bad + ") " : "") + (page?.title || "") + " · Bullpen";
	return [
		h("a.skip", { href: "#main", onclick: (e) => { e.preventDefault(); document.getElementById("main").focus(); } }, "Skip to the content"),
		h("header",
			h("a.brand", { href: "#/" }, "Bullpen"),
			h("nav", { "aria-label": "Pages" }, menu.map((m) => link(m.to, m.name, { key: m.key, "aria-current": m.pages.includes(here) ? "page" : undefined }))),
			h("div.who",
				app.me.node ? h("span.node", { title: "This node, version " + (app.me.version || "unknown") }, app.me.node) : null,
				may("admin") ? null : h("span.badge.warn", { title: "Your token has the role " + app.me.role + ": actions that need another role are disabled." }, app.me.role === "read" ? "read-only" : app.me.role),
				h("span", { class: "live " + (app.lost ? "off" : app.overview ? "on" : ""), role: "img", "aria-label": app.lost ? "not connected" : "live", title: app.lost ? "Not connected" : "Live" }),
				button("?", "read", help, { bare: true, "aria-label": "Keyboard shortcuts", title: "Keyboard shortcuts (?)" }),
				hasToken() ? button("Log out", "none", () => { leave(); begin(); }, { bare: true }) : null)),
		app.lost && Date.now() - app.lost > 1500 ? h("div.banner", { role: "status" }, "The connection to the daemon is lost. This page is " + span(Math.floor((Date.now() - app.lost) / 1000)) + " old. Reconnecting …") : null,
		h("main", { id: "main", tabindex: -1, key: "main" + place }, page ? page.view() : loading()),
		h("div.notes", app.notes.map((n) => h("div", { class: "note" + (n.bad ? " bad" : ""), key: n.id, role: n.bad ? "alert" : undefined }, h("span", n.text),
			button("×", "none", () => { app.notes = app.notes.filter((o) => o !== n); redraw(); }, { bare: true, "aria-label": "Dismiss" })))),
		dialog(),
	];
}

paintWith(() => {
	if (app.login) draw(root, loginView());
	else if (!app.me) draw(root, h("main.login", { id: "main", tabindex: -1 }, app.startFault ? h("p.fault", app.startFault.message) : loading()));
	else draw(root, frame());
});

const keys = [["/", "search"], ["?", "this list"], ["Esc", "close, or clear the selection"], ...menu.map((m) => ["g " + m.key, m.name])];

function help() {
	confirm({
		title: "Keyboard shortcuts",
		body: () => h("dl.keys", keys.map(([k, what]) => h("div", { key: k }, h("dt", k.split(" ").map((p) => h("kbd", p))), h("dd", what)))),
	});
}

let going = 0;
document.addEventListener("keydown", (e) => {
	if (!app.me || app.ask || e.ctrlKey || e.metaKey || e.altKey) return;
	const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) && e.target.type !== "checkbox";
	if (e.key === "Escape" && typing) return e.target.blur();
	if (typing) return;
	if (e.key === "/") {
		const box = document.querySelector("input.search");
		if (!box) return;
		e.preventDefault();
		box.focus();
		box.select();
	} else if (e.key === "?") {
		e.preventDefault();
		help();
	} else if (e.key === "g") {
		going = Date.now();
		return;
	} else if (Date.now() - going < 1500) {
		const m = menu.find((o) => o.key === e.key);
		if (m) location.hash = "#" + m.to;
	} else if (e.key === "Escape" && page?.escape) {
		page.escape();
	}
	going = 0;
});

window.addEventListener("hashchange", open);
setInterval(() => {
	if (document.hidden || !app.me) return;
	page?.tick?.();
	redraw(); // how long ago things were
}, 1000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) { page?.tick?.(); redraw(); } });

begin();
