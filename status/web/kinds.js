// What is plotted: of a pool with two lines where one does not tell enough, of a
// single server with one.

import { brief, latency, percent } from './format.js';

// least is how far an axis goes at the least, so that a single request or a few
// milliseconds do not fill a plot.
const dashed = [4, 3];

export const poolPlots = [
	{ title: 'Time to first token', format: latency, least: 100, lines: [
		{ key: 'ttft', name: 'median', color: 'a' }, { key: 'slow', name: '95 %', color: 'b', dash: dashed }] },
	{ title: 'Waiting', format: brief, least: 4, lines: [
		{ key: 'line', name: 'in the gateway', color: 'a' }, { key: 'queue', name: 'in the servers', color: 'b', dash: dashed }] },
	{ title: 'Tokens in flight', format: brief, least: 100, lines: [{ key: 'tokens', name: 'tokens', color: 'a' }] },
	{ title: 'KV memory', format: percent, most: 1, lines: [
		{ key: 'kv', name: 'mean', color: 'a' }, { key: 'kv_max', name: 'fullest', color: 'b', dash: dashed }] },
	{ title: 'Tokens/s', format: brief, least: 10, lines: [{ key: 'speed', name: 'tokens/s', color: 'a' }] },
];

export const rowPlots = {
	ttft: { title: 'Time to first token', format: latency, least: 100 },
	queue: { title: 'Waiting', format: brief, least: 4 },
	tokens: { title: 'Tokens in flight', format: brief, least: 100 },
	kv: { title: 'KV memory', format: percent, most: 1 },
	speed: { title: 'Tokens/s', format: brief, least: 10 },
};
