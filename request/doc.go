// Package request reads the body of an inference request: which model it asks
// for, how much work it is, and where its conversation lives. The answer is an
// [llmlb.Features], which holds hashes and counts and nothing of the prompt's
// text besides the model's name.
//
// The admission handler calls [Read] for each body, and so does the selection
// policy when it works without that handler. Nothing here survives a request,
// let alone a reload: [Options] are made anew for each settings generation, and
// the package has no state of its own.
//
// A body is read in place and never changed, kept or copied. A first pass walks
// the whole body once, notes where the top-level fields are and enforces what
// must hold for every engine behind us; further passes over single fields write
// the canonical prompt into a hasher. All passes are loops without recursion,
// their number is fixed, and each takes time linear in the body. Where a long
// string ends is remembered from the first pass, so that its bytes are looked at
// once for that and once to be hashed.
//
// # Strict and tolerant
//
// Two parsers that disagree about a body are a hole: we would judge one request
// and the engine would run another. So whatever an engine might read and we
// might miss is refused (see [Refusal]), while whatever only the engine can
// judge is left to it: wrong types, missing fields and broken JSON reach the
// engine, which answers for them. For the same reason the JSON grammar here is
// a little wider than the standard: control characters and invalid UTF-8 in
// strings, NaN and the two infinities pass, because Python's parser takes some
// of them and a field placed behind one must still be seen. A byte order mark
// in front is skipped.
//
// # Canonical prompt
//
// The canonical prompt is a byte string that begins the same way whenever the
// engine's rendered prompt does. It is never built as a whole, only hashed. For
// a chat it holds, in this order and whatever the order in the body: what
// templates render first (chat_template, its arguments, reasoning_effort,
// mm_processor_kwargs, tools, functions, documents), then each message with its
// role, reasoning, content and tool calls. Strings stand in it as they stand in
// the body, escapes and all; each piece begins with a quote and a letter, which
// no string can contain, so text cannot move from one message into another
// unnoticed. An image or a sound takes a fixed number of bytes and enters the
// hash by its data. Model, adapter and salt seed the hash and take no bytes.
// Token ids take four bytes each, without marks between them.
//
// Each other dialect has its own order, in a file of its own, and the same
// pieces: what all conversations of a client begin with comes first, then turn
// after turn. What a client may change without changing the prompt, such as
// Anthropic's cache markers, is left out.
//
// Nothing in it depends on what comes later, so a conversation that grows keeps
// its blocks and only adds to them.
package request
