package request

// embeddings writes the canonical prompt of what is to be encoded or classified:
// one text or several, token ids, or, with vLLM, a chat. TEI has its texts under
// "inputs".
func (r *reading) embeddings(c *canon) {
	c.keyLimit = keyBytes
	if v := r.at[fieldAddSpecialTokens]; !v.absent() {
		c.fold(foldSpecial, v.in(r.b))
	}
	for _, f := range [...]field{fieldInput, fieldInputs} {
		r.texts(c, tagText, r.at[f])
	}
	if !r.at[fieldMessages].absent() {
		r.chat(c)
	}
}
