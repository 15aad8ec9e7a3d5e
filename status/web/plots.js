// Plots of the last 15 minutes, drawn by uPlot. Only those that can be seen are
// drawn, and their colours come from the style sheet, anew when the system turns
// light or dark.

import { el, text } from './dom.js';
import { clock, unknown } from './format.js';
import { times } from './store.js';

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const living = new Set();

const seen = new IntersectionObserver((entries) => {
	for (const e of entries) {
		for (const p of living) if (p.element === e.target) p.seen(e.isIntersecting);
	}
}, { rootMargin: '100px' });

const sized = new ResizeObserver((entries) => {
	for (const e of entries) {
		for (const p of living) if (p.box === e.target) p.resize();
	}
});

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
	for (const p of living) p.again();
});

// A plot draws lines over the same times. With axes it is a figure with a title,
// without it is a line in a table's cell. lines are {key, name, color, dash}. The
// vertical axis goes to most, or to what fits the highest value, and to least.
export class Plot {
	constructor({ title, lines, format, least, most, axes }) {
		Object.assign(this, { lines, format, least, most, axes });
		this.box = el('div', axes ? 'canvas' : 'spark', { 'aria-hidden': 'true' });
		if (axes) {
			this.moment = el('span', 'moment');
			this.values = lines.map(() => el('b', 'value', {}, unknown));
			const caption = el('figcaption', '', {}, el('span', 'name', {}, title), this.moment);
			this.element = el('figure', 'plot', {}, caption, this.box);
			if (lines.length === 1) caption.append(this.values[0]);
			else this.element.append(el('p', 'keys', {}, ...lines.map((l, i) => el('span', 'key', { 'data-line': l.color }, `${l.name} `, this.values[i]))));
		} else {
			this.element = this.box;
		}
		this.visible = false;
		this.data = null;
		living.add(this);
		seen.observe(this.element);
		sized.observe(this.box);
	}

	close() {
		living.delete(this);
		seen.unobserve(this.element);
		sized.unobserve(this.box);
		this.plot?.destroy();
		this.plot = null;
	}

	seen(visible) {
		this.visible = visible;
		if (visible) this.draw();
	}

	// show takes arrays by key, as the store has them.
	show(past) {
		this.data = past;
		this.tell();
		if (this.visible) this.draw();
	}

	// tell writes the values in words: the newest, or those under the pointer.
	tell(at = -1) {
		if (!this.values || !this.data) return;
		this.lines.forEach((l, i) => text(this.values[i], this.format(this.data[l.key].at(at))));
		text(this.moment, at < 0 ? '' : clock(times()[at] * 1000));
	}

	again() {
		this.plot?.destroy();
		this.plot = null;
		if (this.visible) this.draw();
	}

	resize() {
		if (this.plot && this.box.clientWidth > 0) this.plot.setSize(this.size());
	}

	size() {
		return { width: this.box.clientWidth, height: this.box.clientHeight };
	}

	draw() {
		if (!this.data || this.box.clientWidth === 0) return;
		const t = times();
		const data = [t, ...this.lines.map((l) => this.data[l.key])];
		if (!this.plot) this.plot = new window.uPlot(this.options(), data, this.box);
		else this.plot.setData(data, false);
		const high = Math.max(0, ...data.slice(1).flat().filter((x) => x !== null));
		this.plot.batch(() => {
			this.plot.setScale('x', { min: t[0], max: t.at(-1) });
			this.plot.setScale('y', { min: 0, max: this.most || Math.max(this.least, high * 1.15) });
		});
	}

	options() {
		const faint = css('--plot-grid'), words = css('--muted');
		const font = `11px ${getComputedStyle(document.body).fontFamily}`;
		const axis = { stroke: words, font, grid: { stroke: faint, width: 1 }, ticks: { show: false }, gap: 4 };
		return {
			...this.size(),
			padding: this.axes ? [6, 8, 0, 0] : [2, 1, 1, 1],
			legend: { show: false },
			cursor: this.axes ? { y: false, drag: { x: false, y: false }, points: { size: 5 } } : { show: false },
			scales: { x: { time: true, auto: false }, y: { auto: false } },
			axes: this.axes ? [
				{ ...axis, size: 20, splits: (u) => [u.scales.x.max - 600, u.scales.x.max - 300], values: (u) => ['−10 min', u.width < 240 ? '' : '−5 min'] },
				{ ...axis, size: 50, space: 22, values: (u, list) => list.map((x) => (x === 0 ? '0' : this.format(x))) },
			] : [{ show: false }, { show: false }],
			series: [{}, ...this.lines.map((l) => this.line(l))],
			hooks: this.axes ? { setCursor: [(u) => this.tell(u.cursor.idx ?? -1)] } : {},
		};
	}

	line(l) {
		const color = css(`--line-${l.color}`);
		return {
			stroke: color, width: 1.5, dash: l.dash, spanGaps: false,
			fill: l.dash ? undefined : css(`--fill-${l.color}`),
			points: { show: (u, i, from, to) => to - from < 3, size: 3, fill: color },
		};
	}
}
