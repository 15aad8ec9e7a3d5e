package request

// generate writes the canonical prompt of two APIs that share a path: TGI has a
// text under "inputs", SGLang one or several under "text", or token ids. It tells
// how many answers there will be; where each prompt has parameters of its own,
// these are counted already.
func (r *reading) generate(c *canon) (sequences int) {
	c.keyLimit = keyBytes
	r.adapter(c)
	// Where in the text the pictures go, only the engine can tell.
	for _, f := range [...]field{fieldImageData, fieldVideoData, fieldAudioData} {
		r.pictures(c, r.at[f])
	}
	if v := r.at[fieldInputEmbeds]; !v.absent() {
		c.picture(v.in(r.b))
	}
	sequences = 1
	for _, f := range [...]field{fieldInputs, fieldText, fieldInputIDs} {
		_, n := r.texts(c, tagText, r.at[f])
		sequences = max(sequences, n)
	}
	if isList(r.b, r.at[fieldSamplingParams]) {
		return 1
	}
	return sequences
}

// adapter keeps the caches of TGI's adapters apart.
func (r *reading) adapter(c *canon) {
	v := r.at[fieldParameters]
	if v.absent() || r.b[v.lo] != '{' {
		return
	}
	for w := r.into(v.lo); ; {
		key, value, ok := w.member()
		if !ok {
			return
		}
		if string(key) == "adapter_id" && !value.absent() {
			c.fold(foldAdapter, value.in(r.b))
		}
	}
}
