// The states of a server: each has a word and a shape of its own, so that no one
// has to tell them by colour. The colours are in table.css.

import { el, shape, text } from './dom.js';

// In the order of trouble: what an operator should see first.
export const states = {
	down: 'M3.4 1.3 8 5.9l4.6-4.6 2.1 2.1L10.1 8l4.6 4.6-2.1 2.1L8 10.1l-4.6 4.6-2.1-2.1L5.9 8 1.3 3.4z',
	overloaded: 'M8 1 15.5 14.5H.5zM7.1 6v4.2h1.8V6zm0 5.4v1.8h1.8v-1.8z',
	degraded: 'M.5 2.5h15L8 15z',
	starting: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zM8 3v10A5 5 0 0 1 8 3z',
	draining: 'M3 2h4v12H3zm6 0h4v12H9z',
	drained: 'M2 2h12v12H2zm2.2 2.2v7.6h7.6V4.2z',
	up: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13z',
};

const order = Object.keys(states);

// trouble is how far up a state belongs, 0 at the top.
export function trouble(state) {
	const at = order.indexOf(state);
	return at < 0 ? order.length : at;
}

// badge makes the sign of a state.
export function badge(state, label = state) {
	return el('span', 'badge', { 'data-state': state }, shape(states[state] || states.up, 'shape'), el('span', 'word', {}, label));
}

// rebadge changes it.
export function rebadge(e, state, label = state) {
	if (e.dataset.state !== state) {
		e.dataset.state = state;
		e.querySelector('path').setAttribute('d', states[state] || states.up);
	}
	text(e.lastChild, label);
}

// tally counts servers by state, in the order of trouble.
export function tally(rows) {
	const n = new Map();
	for (const r of rows) n.set(r.state, (n.get(r.state) || 0) + 1);
	return [...n].sort((a, b) => trouble(a[0]) - trouble(b[0]));
}
