// Draining and resuming. A drain asks first; the dialog is the browser's own, so
// that Escape closes it and the focus stays inside and comes back.

import { here, text } from './dom.js';
import { count } from './format.js';

const token = () => document.querySelector('meta[name="llm-token"]')?.content;

// act sends an action, and throws an error that can be shown.
async function act(what, pool, endpoint) {
	let answer;
	try {
		answer = await fetch(here(what), {
			method: 'POST',
			headers: { 'Content-Type': 'application/json', 'X-LLM-Status-Token': token() || '' },
			body: JSON.stringify({ pool, endpoint }),
		});
	} catch {
		throw new Error('the gateway could not be reached');
	}
	if (answer.ok) return;
	let why = `the gateway answered ${answer.status}`;
	try {
		why = (await answer.json()).error.message;
	} catch { /* not our answer: the status says enough */ }
	throw new Error(why);
}

// confirm resolves to whether the person has agreed.
function confirm(title, body, yes) {
	const dialog = document.getElementById('confirm');
	text(document.getElementById('confirm-title'), title);
	text(document.getElementById('confirm-text'), body);
	const agree = document.getElementById('confirm-yes');
	text(agree, yes);
	return new Promise((resolve) => {
		dialog.returnValue = '';
		agree.onclick = () => dialog.close('yes');
		document.getElementById('confirm-no').onclick = () => dialog.close('');
		dialog.onclose = () => resolve(dialog.returnValue === 'yes');
		dialog.showModal();
		// What changes least has the focus: Enter by mistake drains nothing.
		document.getElementById('confirm-no').focus();
	});
}

// press does what the button of a row says.
export async function press(what, pool, row, complain) {
	if (what === 'drain') {
		const open = row.calls ? `The ${count(row.calls)} open here finish first.` : 'Nothing of this gateway is open there.';
		const agreed = await confirm(`Drain ${row.name}?`,
			`It gets no new requests until it is resumed, also over a reload. ${open}`, 'Drain');
		if (!agreed) return;
	}
	try {
		await act(what, pool.name, row.name);
	} catch (e) {
		complain(`${row.name}: ${e.message}`);
	}
}
