// What is shown is described by a tree, which is compared with what is there, so
// that focus, selection and scroll stay. All text becomes text nodes: nothing of
// what the daemon tells is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

// h describes an element, such as "p.quiet" with its classes, then its properties if it
// has any, then its children. Those that are null or false keep their place.
export function h(name, ...kids) {
	const [tag, ...looks] = name.split(".");
	const first = kids[0];
	const props = first && typeof first === "object" && !first.tag && !Array.isArray(first) ? { ...kids.shift() } : {};
	if (looks[0]) props.class ||= looks.join(" ");
	return { tag, props, kids: flat(kids, []) };
}

function flat(kids, into) {
	for (const k of kids) {
		if (Array.isArray(k)) flat(k, into);
		else if (k === null || k === undefined || k === false || k === true) into.push({ text: "" });
		else if (typeof k === "object") into.push(k);
		else into.push({ text: String(k) });
	}
	return into;
}

// draw makes the children of an element what kids describes.
export function draw(parent, ...kids) {
	patch(parent, flat(kids, []), parent.namespaceURI === SVG);
}

function fits(node, v) {
	return node && node._v && node._v.tag === v.tag;
}

function patch(parent, kids, svg) {
	const keyed = new Map();
	const loose = [];
	for (const node of parent.childNodes) {
		const key = node._v?.props?.key;
		if (key !== undefined) keyed.set(key, node);
		else loose.push(node);
	}
	let next = 0;
	const nodes = kids.map((v) => {
		const key = v.props?.key;
		const old = key !== undefined ? keyed.get(key) : loose[next++];
		if (key !== undefined) keyed.delete(key);
		return fits(old, v) ? old : null;
	});
	const kept = new Set(nodes);
	for (const node of [...parent.childNodes]) if (!kept.has(node)) node.remove();
	let at = parent.firstChild;
	kids.forEach((v, i) => {
		const node = nodes[i] || make(v, svg);
		if (node === at) at = at.nextSibling;
		else parent.insertBefore(node, at);
		fill(node, v, svg);
	});
}

function make(v, svg) {
	if (v.tag === undefined) return document.createTextNode("");
	const node = svg || v.tag === "svg" ? document.createElementNS(SVG, v.tag) : document.createElement(v.tag);
	if (v.props.made) queueMicrotask(() => v.props.made(node));
	return node;
}

function fill(node, v, svg) {
	const old = node._v;
	node._v = v;
	if (v.tag === undefined) {
		if (node.data !== v.text) node.data = v.text;
		return;
	}
	const before = old?.props || {};
	for (const name in before) if (!(name in v.props)) set(node, name, undefined);
	for (const name in v.props) if (name !== "value" && before[name] !== v.props[name]) set(node, name, v.props[name]);
	patch(node, v.kids, svg || v.tag === "svg");
	// What a person types stays until the page has another value or other options.
	if ("value" in v.props && (before.value !== v.props.value || options(old) !== options(v)) && node.value !== String(v.props.value)) node.value = v.props.value;
}

const options = (v) => v?.tag === "select" && v.kids.map((k) => k.props.value).join("\n");

const asProperty = new Set(["checked", "indeterminate", "disabled", "open"]);

function set(node, name, value) {
	if (name === "key" || name === "made") return;
	if (name.startsWith("on")) {
		node._on ||= {};
		const kind = name.slice(2);
		if (!(kind in node._on)) node.addEventListener(kind, (e) => node._on[kind]?.(e));
		node._on[kind] = value;
	} else if (asProperty.has(name)) {
		node[name] = Boolean(value);
	} else if (value === undefined || value === null || value === false) {
		node.removeAttribute(name);
	} else {
		node.setAttribute(name, value === true ? "" : value);
	}
}

// --- words for numbers, durations and times ---

const whole = new Intl.NumberFormat("en");

export function count(n) {
	if (n === undefined || n === null) return "–";
	if (Math.abs(n) < 1e5) return whole.format(Math.round(n));
	const unit = Math.abs(n) < 1e6 ? [1e3, "k"] : Math.abs(n) < 1e9 ? [1e6, "M"] : [1e9, "G"];
	return (n / unit[0]).toPrecision(3) + unit[1];
}

export function rate(n) {
	if (n === undefined || n === null) return "–";
	if (n === 0) return "0";
	if (n < 0.01) return "<0.01";
	return n < 10 ? n.toFixed(n < 1 ? 2 : 1) : count(n);
}

export function share(part, all) {
	if (!all || !part) return "0%";
	const p = (100 * part) / all;
	return p < 0.1 ? "<0.1%" : p < 10 ? p.toFixed(1) + "%" : Math.round(p) + "%";
}

export function span(s) {
	if (s === undefined || s === null) return "–";
	if (s === 0) return "0 s";
	if (s < 1e-3) return Math.max(1, Math.round(s * 1e6)) + " µs";
	if (s < 1) return +(s * 1e3).toPrecision(s < 0.01 ? 2 : 3) + " ms";
	if (s < 60) return +s.toPrecision(s < 10 ? 2 : 3) + " s";
	const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
	s = Math.round(s);
	const i = parts.findIndex(([n]) => s >= n);
	const rest = i < 3 ? Math.floor((s % parts[i][0]) / parts[i + 1][0]) : 0;
	return Math.floor(s / parts[i][0]) + " " + parts[i][1] + (rest ? " " + rest + " " + parts[i + 1][1] : "");
}

// brief is a time with one unit.
export const brief = (s) => (!(s >= 60) ? span(s) : s < 3600 ? Math.round(s / 60) + " min" : +(s < 86400 ? s / 3600 : s / 86400).toPrecision(2) + (s < 86400 ? " h" : " d"));

export function bytes(n) {
	if (n === undefined || n === null) return "–";
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let i = 0;
	for (; n >= 1000 && i < units.length - 1; i++) n /= 1024;
	return (i === 0 || n >= 100 ? Math.round(n) : +n.toPrecision(3)) + " " + units[i];
}

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" }); // which names the zone
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

export const clockOf = (ms) => clock.format(ms);
export const hourOf = (ms) => hour.format(ms);
export const exactOf = (text) => exact.format(Date.parse(text));
// zone is the zone of all times that are shown without one.
export const zone = exact.formatToParts().find((p) => p.type === "timeZoneName").value;

export function relative(text, now = Date.now()) {
	const s = (now - Date.parse(text)) / 1000, ago = Math.abs(s);
	if (ago < 1) return "now";
	const about = span(ago < 60 ? Math.floor(ago) : ago < 3600 ? ago - (ago % 60) : ago - (ago % 600));
	return s > 0 ? about + " ago" : "in " + about;
}

// when shows a time as how long ago it was, with the exact time at hand.
export function when(text) {
	if (!text) return "–";
	return h("time", { datetime: text, title: exactOf(text) + " · " + text }, relative(text));
}

// at shows both, for who has no pointer to ask with.
export const at = (text) => (text ? [when(text), " ", h("span.quiet", exactOf(text))] : "");

// since is how many seconds ago a time was.
export const since = (text) => (text ? Math.max(0, (Date.now() - Date.parse(text)) / 1000) : 0);
