'use strict';
// Draws the plots in SVG, anew for each width. No library, no network.
const NS = 'http://www.w3.org/2000/svg';
const colour = (i) => `var(--c${i % 8})`;
const dash = (i) => ['', '7 3', '2 3', '9 3 2 3'][Math.floor(i / 8) % 4];
const at = (id) => document.getElementById(id);

function put(parent, name, attributes, text) {
	const e = document.createElementNS(NS, name);
	for (const key in attributes) e.setAttribute(key, attributes[key]);
	if (text !== undefined) e.textContent = text;
	parent.append(e);
	return e;
}

const plain = (x) => x >= 1e6 ? +(x / 1e6).toFixed(1) + 'M' : x >= 1e3 ? +(x / 1e3).toFixed(1) + 'k' : +x.toFixed(1) + '';
const inMillis = (x) => x >= 1000 ? +(x / 1000).toPrecision(3) + ' s' : +x.toPrecision(3) + ' ms';
const inSeconds = (x) => x >= 120 ? +(x / 60).toFixed(1) + ' min' : +x.toFixed(1) + ' s';
const inPercent = (x) => +(100 * x).toFixed(1) + ' %';

// steps are round numbers between 0 and most.
function steps(most, about) {
	const raw = Math.max(most, 1e-9) / about, power = 10 ** Math.floor(Math.log10(raw));
	const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw * 0.999);
	const out = [];
	for (let x = 0; x <= most * 1.0001; x += step) out.push(x);
	return out;
}

// times are moments up to most, in seconds, minutes or hours, so that
// marks are round.
function times(most) {
	const [unit, name] = most >= 7200 ? [3600, 'h'] : most >= 120 ? [60, 'min'] : [1, 's'];
	return {
		max: most, format: (x) => +(x / unit).toFixed(1) + ' ' + name,
		steps: (about) => steps(most / unit, about).map((x) => x * unit),
	};
}

// decades are those of a logarithmic scale: as many of 1, 2, 5 as have room.
function decades(low, high, room) {
	const out = [];
	for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
		for (const f of Math.log10(high / low) * 3 > room ? [1] : [1, 2, 5]) out.push(f * 10 ** e);
	return out.filter((x) => x >= low * 0.999 && x <= high * 1.001);
}

// frame makes the axes and returns where values are. x and y have max, format, and
// x has min and log, or steps.
function frame(box, height, x, y) {
	box.replaceChildren();
	const width = Math.max(box.clientWidth, 200), room = width / 70;
	const svg = put(box, 'svg', { viewBox: `0 0 ${width} ${height}`, height, 'aria-hidden': 'true' });
	const left = 48, right = width - 14, top = 8, bottom = height - 22;
	const X = x.log
		? (v) => left + (right - left) * Math.log(Math.max(v, x.min) / x.min) / Math.log(x.max / x.min)
		: (v) => left + (right - left) * v / x.max;
	const Y = (v) => bottom - (bottom - top) * v / y.max;
	for (const v of steps(y.max, 4)) {
		put(svg, 'line', { class: 'grid', x1: left, x2: right, y1: Y(v), y2: Y(v) });
		put(svg, 'text', { x: left - 6, y: Y(v) + 4, 'text-anchor': 'end' }, y.format(v));
	}
	for (const v of x.log ? decades(x.min, x.max, room) : x.steps(room)) {
		if (x.log) put(svg, 'line', { class: 'grid', x1: X(v), x2: X(v), y1: top, y2: bottom });
		put(svg, 'text', { x: X(v), y: height - 5, 'text-anchor': X(v) > right - 16 ? 'end' : 'middle' }, x.format(v));
	}
	const told = document.createElement('div');
	told.className = 'told';
	box.append(told);
	return { svg, X, Y, left, right, top, bottom, told, x };
}

function line(f, points, i, attributes) {
	if (!points.length) return;
	const d = points.map(([a, b]) => f.X(a).toFixed(1) + ',' + f.Y(b).toFixed(1)).join(' ');
	put(f.svg, 'polyline', { fill: 'none', stroke: colour(i), 'stroke-dasharray': dash(i), 'stroke-width': 1.8, 'stroke-linejoin': 'round', points: d, ...attributes });
}

// hover tells of the place under the pointer; value turns a distance from the left
// into a value of x.
function hover(f, tell) {
	const cross = put(f.svg, 'line', { class: 'grid', y1: f.top, y2: f.bottom, x1: -9, x2: -9 });
	f.svg.addEventListener('pointermove', (e) => {
		const px = Math.min(Math.max(e.clientX - f.svg.getBoundingClientRect().left, f.left), f.right);
		const part = (px - f.left) / (f.right - f.left);
		cross.setAttribute('x1', px);
		cross.setAttribute('x2', px);
		f.told.textContent = tell(f.x.log ? f.x.min * (f.x.max / f.x.min) ** part : f.x.max * part);
	});
	f.svg.addEventListener('pointerleave', () => { f.told.textContent = ''; cross.setAttribute('x1', -9); cross.setAttribute('x2', -9); });
}

function nothing(box, why) {
	const p = document.createElement('p');
	p.className = 'hint';
	p.textContent = why;
	box.replaceChildren(p);
}

// shown are the strategies that are drawn, each with a place in the list of colours
// that no other has.
const shown = new Map(data.shown.map((strategy, place) => [strategy, place]));

function show(strategy) {
	const taken = new Set(shown.values());
	let place = 0;
	while (taken.has(place)) place++;
	shown.set(strategy, place);
}

// distribution draws the strategies that are shown.
function distribution(id, slo) {
	const box = at(id);
	const list = data.curves.map((c, i) => ({ name: c.name, i, points: c[id] })).filter((c) => shown.has(c.i) && c.points.length);
	if (!list.length) return nothing(box, 'Nothing is chosen, or no answer has such a time.');
	const firsts = list.map((c) => c.points[0][0]), lasts = list.map((c) => c.points[c.points.length - 1][0]);
	const low = Math.max(0.1, Math.min(...firsts) / 1.1), high = Math.max(1.3 * low, 1.1 * Math.max(...lasts));
	const f = frame(box, 260, { min: low, max: high, log: true, format: inMillis }, { max: 1, format: inPercent });
	if (slo >= low && slo <= high) put(f.svg, 'line', { x1: f.X(slo), x2: f.X(slo), y1: f.top, y2: f.bottom, stroke: 'var(--fg)', 'stroke-dasharray': '1 4' });
	for (const c of list) {
		const points = [[low, 0]];
		let before = 0;
		for (const [ms, share] of c.points) {
			points.push([ms, before], [ms, share]);
			before = share;
		}
		line(f, points, shown.get(c.i));
	}
	hover(f, (ms) => 'within ' + inMillis(ms) + ': ' + list.map((c) => {
		let share = 0;
		for (const p of c.points) if (p[0] <= ms) share = p[1];
		return c.name + ' ' + inPercent(share);
	}).join(', '));
}

function distributions() {
	distribution('ttft', data.slo[0]);
	distribution('tpot', data.slo[1]);
}

// load draws a line for each server.
function load(id, all, moments, held) {
	const box = at(id);
	if (!moments.length) return nothing(box, 'The load was not looked at.');
	const most = Math.max(1, ...all.flat(), ...held);
	const f = frame(box, 200, times(Math.max(moments[moments.length - 1], 0.1)), { max: 1.05 * most, format: plain });
	all.forEach((values, i) => line(f, values.map((v, k) => [moments[k], v]), i, { 'stroke-width': 1.2, 'stroke-opacity': all.length > 12 ? 0.5 : 0.85 }));
	if (held.length) line(f, held.map((v, k) => [moments[k], v]), 0, { stroke: 'var(--fg)', 'stroke-dasharray': '3 3' });
	hover(f, (s) => {
		let k = 0;
		moments.forEach((t, i) => { if (Math.abs(t - s) < Math.abs(moments[k] - s)) k = i; });
		const values = all.map((v) => v[k]);
		const told = values.length > 12 ? plain(Math.min(...values)) + ' to ' + plain(Math.max(...values)) : values.map(plain).join(', ');
		return inSeconds(moments[k]) + ': ' + told + (held.length ? '; in the gateways ' + plain(held[k]) : '');
	});
}

function loads() {
	const c = data.curves[+at('strategy').value];
	if (!c) return;
	load('pending', c.load.pending, c.load.at, []);
	load('running', c.load.running, c.load.at, []);
	load('waiting', c.load.waiting, c.load.at, c.load.held.some((h) => h > 0) ? c.load.held : []);
}

function draw() {
	distributions();
	loads();
}

data.curves.forEach((c, i) => {
	const button = document.createElement('button');
	button.type = 'button';
	const mark = put(put(button, 'svg', { viewBox: '0 0 22 8', 'aria-hidden': 'true' }), 'line', { x1: 0, x2: 22, y1: 4, y2: 4, 'stroke-width': 3 });
	button.append(c.name);
	const update = () => {
		const place = shown.get(i);
		button.setAttribute('aria-pressed', shown.has(i));
		mark.setAttribute('stroke', shown.has(i) ? colour(place) : 'var(--line)');
		mark.setAttribute('stroke-dasharray', shown.has(i) ? dash(place) : '');
	};
	update();
	button.addEventListener('click', () => {
		if (!shown.delete(i)) show(i);
		update();
		distributions();
	});
	at('chips').append(button);
	const option = document.createElement('option');
	option.value = i;
	option.textContent = c.name;
	at('strategy').append(option);
});
if (data.shown.length) at('strategy').value = data.shown[0];
at('strategy').addEventListener('change', loads);

let drawn = document.body.clientWidth;
addEventListener('resize', () => {
	if (drawn !== document.body.clientWidth) draw();
	drawn = document.body.clientWidth;
});
draw();
