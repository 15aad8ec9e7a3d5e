// The page's beginning: it connects, takes in what comes, and keeps the views of
// the pools in step with it.

import { announcer } from './announce.js';
import { arrange, el, text } from './dom.js';
import { poolView } from './pool.js';
import { store, takeHistory, takePools, takeSteps } from './store.js';
import { connect } from './stream.js';

const main = document.getElementById('pools');
const link = document.getElementById('link');
const notice = document.getElementById('notice');
const empty = document.getElementById('empty');
const announce = announcer(document.getElementById('news'));
const views = new Map();
let boot;

// complain shows what went wrong, until something else does or it is closed.
function complain(message) {
	notice.replaceChildren(message);
	const close = el('button', 'close', { type: 'button' }, 'Dismiss');
	close.onclick = () => { notice.hidden = true; };
	notice.append(' ', close);
	notice.setAttribute('role', 'alert');
	notice.hidden = false;
}

function show() {
	for (const name of [...views.keys()]) {
		if (!store.pools.has(name)) {
			views.get(name).close();
			views.delete(name);
		}
	}
	const sections = [];
	for (const p of store.pools.values()) {
		let view = views.get(p.name);
		if (!view) {
			view = poolView(p, complain);
			views.set(p.name, view);
		}
		view.update(p);
		sections.push(view.element);
	}
	empty.hidden = sections.length > 0;
	arrange(main, [...main.querySelectorAll(':scope > noscript'), notice, empty, ...sections]);
}

function linkIs(state) {
	link.dataset.link = state;
	text(link, state === 'live' ? 'live' : 'disconnected, retrying');
	document.body.classList.toggle('stale', state !== 'live');
}

connect({
	link: linkIs,
	hello(data) {
		store.actions = data.actions;
		store.step = data.step;
		store.steps = data.steps;
		if (boot && boot !== data.boot) {
			complain('Caddy was started anew. Reload the page to use its buttons.');
		}
		boot = data.boot;
	},
	history(data) {
		takeHistory(data);
		for (const v of views.values()) v.past(true);
	},
	steps(data) {
		takeSteps(data);
		for (const v of views.values()) v.past(false);
	},
	pools(data) {
		const changes = takePools(data);
		show();
		announce(changes);
	},
});

// What has lasted for so long, and what comes in so long, goes on by itself.
setInterval(() => { for (const v of views.values()) v.tick(); }, 1000);
