package request

// Tags of what only dialects besides chat and completions have. The others are
// in canon.go, with the meaning of their case.
const (
	tagSystem = 'y' // what stands in front of all messages
	tagQuery  = 'q' // what texts are compared with
	tagMember = 'j' // a member's name, where an object is hashed without some
	tagValue  = 'v' // and its value
	tagResult = 'w' // what a tool answered
)

// Folds of the same.
const (
	foldState  byte = iota + 64 // a conversation that the engine keeps
	foldField                   // the list before has ended
	foldMember                  // a member's name or value
)
