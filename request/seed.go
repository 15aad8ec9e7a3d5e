package request

// promptLength guesses the canonical prompt's length from the fields that take
// most of it. Few of them are in one body.
func (r *reading) promptLength() (n int) {
	for _, f := range [...]field{
		fieldMessages, fieldTools, fieldFunctions, fieldDocuments, fieldPrompt, fieldSuffix,
		fieldInput, fieldInstructions, fieldSystem, fieldContext, fieldInputs, fieldText, fieldInputIDs,
		fieldQuery, fieldQueries, fieldTexts, fieldItems, fieldText1, fieldText2, fieldData1, fieldData2,
	} {
		n += r.at[f].hi - r.at[f].lo
	}
	return n
}

// seed puts in front of the prompt what keeps caches apart: model, adapter and
// salt. Where the client names its conversation, the name becomes the whole of
// the conversation key.
func (r *reading) seed(c *canon, model, session string) {
	var buf [128]byte
	c.fold(foldModel, append(buf[:0], model...))
	for _, part := range [...]struct {
		f   field
		tag byte
	}{
		{fieldLoRAPath, foldAdapter},
		{fieldLoRA, foldAdapter},
		{fieldCacheSalt, foldSalt},
		{fieldExtraKey, foldSalt},
	} {
		if v := r.at[part.f]; !v.absent() {
			c.fold(part.tag, v.in(r.b))
		}
	}
	if key := r.name(fieldPromptCacheKey); key != nil {
		c.named(key)
	} else if session != "" {
		c.named([]byte(session))
	} else if key := r.name(fieldSessionID); key != nil {
		c.named(key)
	}
}

// name returns the text of a field that is a string and not empty, or nil.
func (r *reading) name(f field) []byte {
	if v := r.at[f]; isString(r.b, v) && v.hi-v.lo > 2 {
		return inner(r.b, v)
	}
	return nil
}

// named makes the conversation's name its key.
func (c *canon) named(name []byte) {
	c.key = mix(c.key, foldSession, 0, name)
	c.keyOpen = false
}
