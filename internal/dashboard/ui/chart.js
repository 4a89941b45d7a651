// Charts of an hour, as SVG of our own. What a pointer, a tap or the arrow keys point
// at is told in the head of each chart; all charts of a page point at one time.
import { h, clockOf, hourOf, span } from "./dom.js";

const high = 100; // the height of the drawing's own units; the width is one for each point

const times = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400];

// nice is a round number that is at least n, or a round time.
function nice(n, time) {
	if (!(n > 0)) return 1;
	if (time && n > 30 && n <= 86400) return times.find((t) => t >= n);
	const unit = 10 ** Math.floor(Math.log10(n));
	return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((f) => f * unit >= n * 0.999) * unit;
}

const drawn = new WeakMap(); // the path of values, by the values

function pathOf(values, top) {
	const known = drawn.get(values);
	if (known?.top === top) return known;
	let line = "", area = "", dots = "", from = -1;
	const x = (i) => i + 0.5;
	const y = (v) => (high - (Math.min(v, top) / top) * (high - 2) - 1).toFixed(2);
	for (let i = 0; i <= values.length; i++) {
		const v = values[i];
		if (v === null || v === undefined) {
			if (from >= 0) {
				if (from === i - 1) dots += `M${x(from)} ${y(values[from])}h.01`; // a point by itself
				area += `L${x(i - 1)} ${high}L${x(from)} ${high}Z`;
			}
			from = -1;
			continue;
		}
		const step = (from < 0 ? "M" : "L") + x(i) + " " + y(v);
		line += step;
		area += step;
		if (from < 0) from = i;
	}
	const made = { top, line, area, dots };
	drawn.set(values, made);
	return made;
}

// chart draws some series over the same time. lines have a name, values and a look;
// at is the shared cursor: a point, or null.
export function chart({ title, lines, from, step, say, at, point }) {
	const n = lines[0].values.length;
	let most = 0;
	for (const l of lines) for (const v of l.values) if (v > most) most = v;
	const top = nice(most, say === span);
	const last = (values) => { for (let i = n - 1; i >= 0; i--) if (values[i] !== null) return values[i]; return null; };
	const told = (l) => (at === null ? last(l.values) : l.values[at]);
	const time = at === null ? null : from + at * step * 1000;
	const move = (e) => {
		const box = e.currentTarget.getBoundingClientRect();
		point(Math.max(0, Math.min(n - 1, Math.floor(((e.clientX - box.left) / box.width) * n))));
	};
	const keys = (e) => {
		const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30 }[e.key];
		if (e.key === "Escape" && at !== null) point(null);
		else if (e.key === "Home") point(0);
		else if (e.key === "End") point(n - 1);
		else if (by) point(Math.max(0, Math.min(n - 1, (at === null ? n - 1 : at) + by)));
		else return;
		e.preventDefault();
		e.stopPropagation();
	};
	const words = lines.map((l) => (lines.length > 1 ? l.name + " " : "") + say(told(l))).join(", ");
	return h("figure.chart",
		h("figcaption",
			h("b", title),
			time === null ? null : h("span.quiet", clockOf(time)),
			h("span.told", lines.map((l) => h("span", { class: "line-key " + l.look }, lines.length > 1 ? l.name + " " : "", h("b", say(told(l))))))),
		h("div.plot", { tabindex: 0, role: "img", "aria-label": `${title}, ${time === null ? "now" : clockOf(time)}: ${words}. Highest in the last hour: ${say(most)}. Arrow keys move through time.`, onkeydown: keys, onpointermove: move, onpointerdown: move, onpointerleave: () => point(null), onblur: () => point(null) },
			h("svg", { viewBox: `0 0 ${n} ${high}`, preserveAspectRatio: "none", "aria-hidden": "true" },
				h("path.grid", { d: `M0 ${high - 0.5}H${n}M0 ${high / 2}H${n}M0 1H${n}` }),
				lines.map((l, i) => {
					const p = pathOf(l.values, top);
					return h("g", { class: "line " + l.look }, i === 0 ? h("path.area", { d: p.area }) : null, h("path.stroke", { d: p.line }), h("path.dots", { d: p.dots }));
				}),
				at === null ? null : h("path.cursor", { d: `M${at + 0.5} 0V${high}` })),
			h("span.top", say(top)),
			lines.every((l) => last(l.values) === null) ? h("span.none", "nothing yet") : null),
		h("div.times", { "aria-hidden": "true" }, h("span", hourOf(from)), h("span", hourOf(from + (n * step * 1000) / 2)), h("span", "now")));
}

// spark is a small line without words.
export function spark(values) {
	let most = 0;
	for (const v of values) if (v > most) most = v;
	const p = pathOf(values, nice(most));
	return h("svg.spark.line.a", { viewBox: `0 0 ${values.length} ${high}`, preserveAspectRatio: "none", "aria-hidden": "true" },
		h("path.area", { d: p.area }), h("path.stroke", { d: p.line }));
}

// values is all that the charts show, as a table of one row a minute, newest first.
export function values(columns, from, step) {
	const n = columns[0].values.length;
	const every = Math.max(1, Math.round(60 / step));
	const rows = [];
	for (let i = n - 1; i >= 0; i -= every) rows.push(i);
	return h("div.scroll", h("table.plain",
		h("caption.away", "The last hour, a row a minute"),
		h("thead", h("tr", h("th", { scope: "col" }, "Time"), columns.map((c) => h("th", { scope: "col", class: "number" }, c.title)))),
		h("tbody", rows.map((i) => h("tr", { key: i }, h("th", { scope: "row" }, clockOf(from + i * step * 1000)), columns.map((c) => h("td.number", c.values[i] === null ? "–" : c.say(c.values[i]))))))));
}
