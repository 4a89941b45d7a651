// The pieces that pages are made of.
import { h } from "./dom.js";
import { get, path } from "./net.js";
import { app, busy, may, redraw } from "./state.js";

const looks = {
	open: "ok", done: "ok", ok: "ok", idle: "quiet", running: "go", busy: "go", starting: "go", queued: "quiet", scheduled: "quiet",
	retrying: "warn", paused: "warn", draining: "warn", leaving: "warn", canceled: "warn", "queue-only": "quiet", stopping: "warn",
	sealed: "go", closing: "warn", closed: "bad",
};

// badge is a word for a state, told by its color and its text.
export const badge = (word, look) => (word ? h("span", { class: "badge " + (look || looks[word] || "bad") }, word) : null);

// button does something, where the caller may. Who may not sees why. While the act that
// it does runs, it is off.
export function button(label, role, press, more = {}) {
	const allowed = may(role);
	const { danger, primary, bare, does, title, off, ...rest } = more;
	const now = busy(does);
	return h("button", {
		type: "button",
		class: "button" + (danger ? " danger" : primary ? " primary" : bare ? " bare" : ""),
		disabled: !allowed || now || off,
		title: allowed ? title : "This needs the role " + role + "; your token has the role " + (app.me?.role || "none") + ".",
		onclick: press,
		"aria-busy": now ? "true" : undefined,
		key: does,
		...rest,
	}, label);
}

export const link = (to, text, more) => h("a", { href: "#" + to, ...more }, text);

export const to = (...parts) => "/" + parts.map(encodeURIComponent).join("/");

// short shows the end of an id, which is what differs between jobs of one time.
export const short = (id) => (id.length > 12 ? "…" + id.slice(-8) : id);

export const jobLink = (id) => (id ? link(to("jobs", id), short(id), { class: "id", title: id }) : null);
export const poolLink = (name) => (name ? link(to("pools", name), name) : null);

// ill reports whether a pool needs somebody: its workers do not start, or most of its
// tasks fail.
export const ill = (p) => Boolean(p.error) || (p.rate > 0 && p.errors >= p.rate / 2);

const batchNames = new Map(); // by id; empty for one that has none, or is not known yet

// batchName is the key of a batch, or else the end of its id.
export function batchName(id) {
	if (!batchNames.has(id)) {
		batchNames.set(id, "");
		get(path("v1", "batches", id)).then((b) => { batchNames.set(id, b.key); redraw(); }, () => {});
	}
	return batchNames.get(id) || short(id);
}

// table shows rows as a table, and on narrow screens as cards. A column has a name,
// a cell for a row, and a look; the first one is the title of a card.
export function table(name, cols, rows, keyOf, lookOf) {
	const all = cols.flat().filter(Boolean);
	const cell = (c, row) => {
		const v = c.cell(row);
		return h("td", { "data-name": c.hide ? undefined : c.name, class: (c.look || "") + (v === "–" ? " none" : "") }, v);
	};
	return h("div.scroll",
		h("table.cards",
			h("caption.away", name),
			h("thead", h("tr", all.map((c) => h("th", { scope: "col", class: c.look }, c.head || (c.hide ? h("span.away", c.name) : c.name))))),
			h("tbody", rows.map((row) => h("tr", { key: keyOf(row), class: lookOf?.(row) }, all.map((c) => cell(c, row)))))));
}

// shown is what a feed has read, or why it has not.
export const shown = (feed, show, none) => [
	feed.error ? (feed.error.status === 404 && none ? empty(none) : h("div.fault", { role: "alert" }, h("p", h("strong", "Loading failed. "), feed.error.message), button("Try again", "read", feed.again))) : null,
	feed.data ? show(feed.data) : feed.error ? null : loading(),
];

export const quiet = (...text) => h("span.quiet", text);
export const code = (text) => h("code", text);

// chip is a small button that is on or off.
export const chip = (label, on, press, more) => h("button", { type: "button", class: "chip", key: label, "aria-pressed": on === undefined ? undefined : String(Boolean(on)), onclick: press, ...more }, label);

// taken is a filter that can be taken away.
export const taken = (label, press) => chip(label + " ×", undefined, press, { title: "Remove this filter" });

// crumbs is the heading of a page below another.
export const crumbs = (up, name, ...more) => h("h1", link(up, name, { class: "quiet" }), " / ", more);

// col and num are columns of a table: of text, and of numbers.
export const col = (name, cell, look) => ({ name, cell, look });
export const num = (name, cell) => col(name, cell, "number");
export const state = (cell) => col("State", cell, "state");
export const tools = (cell) => ({ name: "Actions", cell, look: "end", hide: true });

export const empty = (text, ...more) => h("div.empty", h("p", text), more);

export const loading = () => h("p.quiet.loading", "Loading …");

// facts is a list of names and values; what has no value, or is not known, is left out.
export const facts = (list) => h("dl.facts",
	list.filter(([, v]) => (v ?? "") !== "" && v !== "–").map(([name, value]) =>
		h("div", { key: name }, h("dt", name), h("dd", value))));

export const bar = (part, all, label) => h("progress", { max: all || 1, value: part, "aria-label": label });

// section is a part of a page with a heading.
export const section = (title, actions, ...kids) => h("section",
	h("div.head", h("h2", title), actions ? h("div.actions", actions) : null), kids);

// field is an input with a label.
export function field(label, input) {
	return h("label.field", h("span", label), input);
}

export const choice = (label, value, options, change) => field(label,
	h("select", { value, onchange: (e) => change(e.target.value) },
		options.map(([v, text]) => h("option", { value: v, key: "o" + v }, text))));

// poolChoice also has the pool of a link that is not there, or not known yet.
export function poolChoice(value, change) {
	const names = (app.overview?.pools || []).map((p) => p.name);
	if (value && !names.includes(value)) names.push(value);
	return choice("Pool", value, [["", "all pools"], ...names.map((n) => [n, n])], change);
}

// searchBox is the field that the key / leads to. It asks once typing has paused.
export function searchBox(value, change) {
	return field("Search id, task, key, group, error", h("input", {
		type: "search", class: "search", value, maxlength: 256, autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/",
		oninput: (e) => {
			clearTimeout(e.target._pause);
			e.target._pause = setTimeout(() => change(e.target.value), 300);
		},
		onkeydown: (e) => { if (e.key === "Enter") { clearTimeout(e.target._pause); change(e.target.value); } },
	}));
}

// dialog shows what a person is asked. The browser keeps the focus within it.
export function dialog() {
	const a = app.ask;
	if (!a) return null;
	const done = (yes) => { if (app.ask === a) a.answer(yes && (a.fields ? a.values : true)); };
	a.values ||= Object.fromEntries((a.fields || []).map((f) => [f.name, f.value ?? ""]));
	return h("dialog", {
		key: "ask", "aria-labelledby": "ask-title",
		made: (el) => el.showModal(),
		oncancel: (e) => { e.preventDefault(); done(false); },
		onclick: (e) => { if (e.target.tagName === "DIALOG") done(false); },
	},
	h("form", { onsubmit: (e) => { e.preventDefault(); done(true); } },
		h("h2", { id: "ask-title" }, a.title),
		a.text ? h("p", a.text, a.danger ? " This cannot be undone." : "") : null,
		a.body ? a.body() : null,
		(a.fields || []).map((f) => field(f.label, h("input", {
			type: f.type || "text", name: f.name, value: a.values[f.name], min: f.min, max: f.max, step: f.step, required: f.required, inputmode: f.type === "number" ? "decimal" : undefined,
			oninput: (e) => { a.values[f.name] = e.target.value; redraw(); },
		}))),
		h("div.actions.end",
			a.verb ? button("Cancel", "read", () => done(false)) : null,
			h("button", { type: "submit", class: "button " + (a.danger ? "danger" : "primary") }, a.verb || "Close"))));
}
