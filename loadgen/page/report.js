'use strict';
// Draws the plots in SVG, anew for each width. No library, no network.
const NS = 'http://www.w3.org/2000/svg';
const colour = (i) => `var(--c${i % 6})`;

function put(parent, name, attributes, text) {
	const e = document.createElementNS(NS, name);
	for (const key in attributes) e.setAttribute(key, attributes[key]);
	if (text !== undefined) e.textContent = text;
	parent.append(e);
	return e;
}

const plain = (x) => x >= 1e6 ? +(x / 1e6).toFixed(1) + 'M' : x >= 1e4 ? +(x / 1e3).toFixed(1) + 'k' : +x.toFixed(x < 10 ? 1 : 0) + '';
const inMillis = (x) => x >= 1000 ? +(x / 1000).toFixed(2) + 's' : +x.toPrecision(2) + 'ms';
const inSeconds = (x) => x >= 120 ? +(x / 60).toFixed(1) + 'min' : +x.toFixed(2) + 's';
const inPercent = (x) => +(100 * x).toFixed(1) + '%';

// Round steps between 0 and most.
function steps(most, about) {
	const raw = Math.max(most, 1e-9) / about, power = 10 ** Math.floor(Math.log10(raw));
	const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw * 0.999);
	const out = [];
	for (let x = 0; x <= most * 1.0001; x += step) out.push(x);
	return out;
}

// Steps on a logarithmic scale: as many of 1, 2, 5 as have room.
function decades(low, high) {
	const out = [];
	for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
		for (const f of high / low > 300 ? [1] : [1, 2, 5]) out.push(f * 10 ** e);
	return out.filter((x) => x >= low * 0.999 && x <= high * 1.001);
}

// frame makes the axes and returns where values are. o: x and y with min, max,
// log, format.
function frame(box, o) {
	box.replaceChildren();
	const legend = document.createElement('div');
	legend.className = 'legend';
	const width = Math.max(box.clientWidth, 200), height = o.height || 190;
	const svg = put(box, 'svg', { viewBox: `0 0 ${width} ${height}`, height });
	box.prepend(legend);
	const left = 46, right = width - 12, top = 8, bottom = height - 22;
	const scale = (axis, from, to) => axis.log
		? (v) => from + (to - from) * Math.log(Math.max(v, axis.min) / axis.min) / Math.log(axis.max / axis.min)
		: (v) => from + (to - from) * (v - axis.min) / (axis.max - axis.min);
	const x = scale(o.x, left, right), y = scale(o.y, bottom, top);
	for (const v of o.y.log ? decades(o.y.min, o.y.max) : steps(o.y.max, 4)) {
		put(svg, 'line', { class: 'grid', x1: left, x2: right, y1: y(v), y2: y(v) });
		put(svg, 'text', { x: left - 6, y: y(v) + 4, 'text-anchor': 'end' }, o.y.format(v));
	}
	for (const v of o.x.log ? decades(o.x.min, o.x.max) : steps(o.x.max, width < 500 ? 4 : 8)) {
		const at = x(v);
		put(svg, 'text', { x: at, y: height - 5, 'text-anchor': at > right - 16 ? 'end' : 'middle' }, o.x.format(v));
	}
	for (const [name, c] of o.legend || []) {
		const item = document.createElement('span'), mark = document.createElement('i');
		mark.style.background = c;
		item.append(mark, name);
		legend.append(item);
	}
	return { svg, x, y, left, right, top, bottom };
}

function line(f, points, attributes) {
	if (points.length) put(f.svg, 'polyline', { fill: 'none', 'stroke-width': 1.8, 'stroke-linejoin': 'round', points: points.map(([a, b]) => f.x(a).toFixed(1) + ',' + f.y(b).toFixed(1)).join(' '), ...attributes });
}

function nothing(box, why) {
	const p = document.createElement('p');
	p.className = 'hint';
	p.textContent = why;
	box.replaceChildren(p);
}

// hover tells the values nearest to the pointer in a line of the legend's kind.
function hover(box, f, at, tell) {
	const told = document.createElement('span'), legend = box.querySelector('.legend');
	legend.append(told);
	const cross = put(f.svg, 'line', { class: 'grid', y1: f.top, y2: f.bottom, x1: -9, x2: -9 });
	f.svg.addEventListener('pointermove', (e) => {
		const r = f.svg.getBoundingClientRect(), px = e.clientX - r.left;
		let best = 0;
		at.forEach((v, i) => { if (Math.abs(f.x(v) - px) < Math.abs(f.x(at[best]) - px)) best = i; });
		cross.setAttribute('x1', f.x(at[best]));
		cross.setAttribute('x2', f.x(at[best]));
		told.textContent = tell(best);
	});
	f.svg.addEventListener('pointerleave', () => { told.textContent = ''; cross.setAttribute('x1', -9); cross.setAttribute('x2', -9); });
}

const time = (end) => ({ min: 0, max: end || data.length, format: inSeconds });

function ttft(box) {
	const seen = data.dots.filter((d) => d.y > 0).map((d) => d.y);
	if (!data.dots.length) return nothing(box, 'Nothing was sent.');
	if (!seen.length) return nothing(box, 'No request had a token.');
	const slos = [...new Set(data.slo)].filter((s) => s < 10 * Math.max(...seen));
	const low = Math.max(0.1, Math.min(...seen) / 1.5), high = Math.max(4 * low, 1.3 * Math.max(...seen, ...slos, 1));
	const end = Math.max(data.offering, data.length / 4);
	const many = data.classes.length > 1;
	const f = frame(box, {
		height: 280, x: time(end), y: { min: low, max: high, log: true, format: inMillis },
		legend: many ? data.classes.map((name, i) => [name, colour(i)]) : [],
	});
	for (const d of data.dots) {
		const cx = f.x(d.x), cy = d.y > 0 ? f.y(d.y) : f.bottom - 3;
		if (d.ok) put(f.svg, 'circle', { cx, cy, r: data.dots.length > 300 ? 1.7 : 3, fill: colour(d.c), 'fill-opacity': data.dots.length > 300 ? 0.45 : 0.8 });
		else put(f.svg, 'path', { d: `M${cx - 3} ${cy - 3}l6 6m0-6l-6 6`, stroke: 'var(--bad)', 'stroke-width': 1.2, 'stroke-opacity': 0.8 });
	}
	for (const c of data.curves) {
		line(f, c.p.map((p) => [p[0], p[1]]), { stroke: colour(c.c), 'stroke-width': 2.4 });
		line(f, c.p.map((p) => [p[0], p[2]]), { stroke: colour(c.c), 'stroke-dasharray': '6 4' });
	}
	for (const s of slos) line(f, [[0, s], [end, s]], { stroke: 'var(--fg)', 'stroke-width': 1, 'stroke-dasharray': '1 4' });
}

// merged joins moments until there are few enough to tell a rate from chance.
function merged(few) {
	const out = [], n = data.line.length, pieces = Math.min(n, few);
	let before = 0;
	for (let i = 0; i < pieces; i++) {
		const piece = data.line.slice(Math.floor(i * n / pieces), Math.floor((i + 1) * n / pieces));
		const last = piece[piece.length - 1], sum = (f) => piece.reduce((s, m) => s + m[f], 0);
		let tokens = 0, from = before;
		for (const m of piece) {
			tokens += m.tokens_per_second * (m.seconds - from);
			from = m.seconds;
		}
		const length = last.seconds - before;
		out.push({ seconds: last.seconds, length, open: last.open, offered: sum('offered'), done: sum('done'), failed: sum('failed'), tokens_per_second: tokens / length });
		before = last.seconds;
	}
	return out;
}

// Each series: a name, a colour, and its value at a moment.
function overTime(box, series, few) {
	const moments = merged(few);
	const at = moments.map((m) => m.seconds);
	if (!at.length) return nothing(box, 'The run was too short for this plot.');
	const all = series.map(([, , value]) => moments.map(value));
	const most = Math.max(...all.flat(), 1);
	const f = frame(box, { x: time(), y: { min: 0, max: 1.08 * most, format: plain }, legend: series.map(([name, c]) => [name, c]) });
	all.forEach((values, i) => {
		const points = values.map((v, k) => [at[k], v]);
		points.unshift([0, points[0][1]]); // the first moment stands for all before it
		line(f, points, { stroke: series[i][1] });
	});
	hover(box, f, at, (k) => inSeconds(at[k]) + ': ' + all.map((v) => plain(v[k])).join(', '));
}

const perSecond = (field) => (m) => m[field] / m.length;

function gaps(box) {
	if (!data.gaps.length) return nothing(box, 'No answer had two tokens.');
	const most = data.gaps[data.gaps.length - 1][0], low = Math.max(0.05, (data.gaps.find((g) => g[0] > 0) || [1])[0] / 1.3);
	const f = frame(box, {
		x: { min: low, max: Math.max(1.05 * most, 2 * low), log: true, format: inMillis },
		y: { min: 0, max: 1, format: inPercent },
		legend: [['share of gaps that are not longer', colour(0)]],
	});
	let before = 0;
	const points = [];
	for (const [ms, share] of data.gaps) {
		points.push([ms, before], [ms, share]);
		before = share;
	}
	line(f, points, { stroke: colour(0) });
	hover(box, f, data.gaps.map((g) => g[0]), (k) => inPercent(data.gaps[k][1]) + ' within ' + inMillis(data.gaps[k][0]));
}

const plotters = {
	ttft,
	requests: (box) => overTime(box, [
		['offered a second', colour(5), perSecond('offered')],
		['ended', colour(2), perSecond('done')],
		['of them failed', 'var(--bad)', perSecond('failed')],
	].filter(([name]) => name !== 'of them failed' || data.line.some((m) => m.failed)), Math.min(120, Math.max(12, data.line.reduce((s, m) => s + m.offered, 0) / 10 | 0))),
	open: (box) => overTime(box, [['open', colour(0), (m) => m.open]], 240),
	tokens: (box) => overTime(box, [['tokens a second', colour(0), (m) => m.tokens_per_second]], 120),
	gaps,
};

function draw() {
	for (const box of document.querySelectorAll('.plot')) plotters[box.dataset.plot](box);
}

let drawn = 0;
addEventListener('resize', () => {
	if (drawn !== document.body.clientWidth) draw();
	drawn = document.body.clientWidth;
});
drawn = document.body.clientWidth;
draw();
