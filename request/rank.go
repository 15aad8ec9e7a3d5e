package request

// ranked are the fields of what is ranked or scored, in the order in which the
// pair goes to the model: what is looked for, then where. Each engine has some of
// them.
var ranked = [...]struct {
	f   field
	tag byte
}{
	{fieldQuery, tagQuery},
	{fieldQueries, tagQuery},
	{fieldText1, tagQuery},
	{fieldData1, tagQuery},
	{fieldDocuments, tagText},
	{fieldTexts, tagText},
	{fieldItems, tagText},
	{fieldText2, tagText},
	{fieldData2, tagText},
}

// rank writes the canonical prompt of a ranking or a score. The query stands in
// it once, though a model may read it with each of the documents.
func (r *reading) rank(c *canon) {
	c.keyLimit = keyBytes
	for _, p := range ranked {
		if v := r.at[p.f]; !v.absent() {
			c.fold(foldField, nil)
			r.texts(c, p.tag, v)
		}
	}
}
