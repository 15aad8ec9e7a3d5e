package request

import "strconv"

// Refusal says why a body must not reach an engine. It answers the client with
// status 400. Its text is made only of fixed words and of names from [Fields],
// so that it may be shown to anybody and logged: nothing of the body is in it.
type Refusal struct {
	// Field is the body field at fault by its proper name, which the body may
	// have spelled otherwise. Empty when the body as a whole is at fault.
	Field string

	// Reason completes the sentence that begins with the field's name.
	Reason string

	// Steering says that the field would be let through by the operator's
	// list of allowed fields.
	Steering bool
}

// Error returns one sentence for the client.
func (r *Refusal) Error() string {
	if r.Field == "" {
		return "the request body " + r.Reason
	}
	return "the field " + strconv.Quote(r.Field) + " " + r.Reason
}

const (
	reasonTwice    = "appears more than once in the request body; letter case and escapes make no difference"
	reasonCase     = "must be written in lower case"
	reasonSteering = "is not accepted: it would steer the inference server past this gateway"
	reasonDeep     = "is nested too deeply"
	reasonEncoding = "is not encoded in UTF-8"
)

func twice(f field) *Refusal { return &Refusal{Field: f.String(), Reason: reasonTwice} }

func steering(f field) *Refusal {
	return &Refusal{Field: f.String(), Reason: reasonSteering, Steering: true}
}
