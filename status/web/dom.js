// The few ways in which this page makes and changes elements. Text is only ever
// set as text: names and reasons come from outside.

// el makes an element with a class, attributes and children.
export function el(tag, cls, attributes = {}, ...children) {
	const e = document.createElement(tag);
	if (cls) e.className = cls;
	for (const [name, value] of Object.entries(attributes)) {
		if (value !== null && value !== undefined) e.setAttribute(name, value);
	}
	e.append(...children);
	return e;
}

// text sets an element's text, and leaves it alone when it has it already: screen
// readers and selections are disturbed by each change.
export function text(e, value) {
	if (e.textContent !== value) e.textContent = value;
}

// attr sets or removes an attribute likewise.
export function attr(e, name, value) {
	if (value === null || value === undefined || value === false) {
		if (e.hasAttribute(name)) e.removeAttribute(name);
	} else if (e.getAttribute(name) !== String(value)) {
		e.setAttribute(name, value);
	}
}

// arrange gives the parent exactly these children in this order. What is there
// stays untouched where it can, and the focus stays with the element that has it.
export function arrange(parent, children) {
	const wanted = new Set(children);
	for (const child of [...parent.children]) {
		if (!wanted.has(child)) child.remove();
	}
	const focused = document.activeElement;
	let at = parent.firstElementChild;
	for (const child of children) {
		if (child === at) {
			at = at.nextElementSibling;
		} else {
			parent.insertBefore(child, at);
		}
	}
	if (focused && focused !== document.activeElement && parent.contains(focused)) {
		focused.focus({ preventScroll: true });
	}
}

const svgNS = 'http://www.w3.org/2000/svg';

// shape makes a small picture of one path, which says nothing to screen readers:
// the word beside it does.
export function shape(path, cls) {
	const svg = document.createElementNS(svgNS, 'svg');
	svg.setAttribute('viewBox', '0 0 16 16');
	svg.setAttribute('class', cls);
	svg.setAttribute('aria-hidden', 'true');
	const p = document.createElementNS(svgNS, 'path');
	p.setAttribute('d', path);
	p.setAttribute('fill-rule', 'evenodd');
	svg.append(p);
	return svg;
}

// here returns the full address of something below the page's own. The page may have
// been opened with a name and a password in its address, which fetch refuses to
// repeat.
export const here = (path) => new URL(path, location.origin + location.pathname);
