package request

// field is a top-level body field that we interpret.
type field uint8

// The order matters: steering fields come last.
const (
	fieldNone field = iota
	fieldModel
	fieldMessages
	fieldPrompt
	fieldSuffix
	fieldPromptEmbeds
	fieldStream
	fieldStreamOptions
	fieldMaxTokens
	fieldMaxCompletionTokens
	fieldN
	fieldBestOf
	fieldTools
	fieldFunctions
	fieldDocuments
	fieldChatTemplate
	fieldChatTemplateKwargs
	fieldReasoningEffort
	fieldMMProcessorKwargs
	fieldAddSpecialTokens
	fieldCacheSalt
	fieldExtraKey
	fieldLoRA
	fieldPromptCacheKey
	fieldInput
	fieldInstructions
	fieldPreviousResponseID
	fieldConversation
	fieldMaxOutputTokens
	fieldReasoning
	fieldSystem
	fieldTemplate
	fieldImages
	fieldContext
	fieldOptions
	fieldInputs
	fieldParameters
	fieldText
	fieldInputIDs
	fieldInputEmbeds
	fieldImageData
	fieldVideoData
	fieldAudioData
	fieldSamplingParams
	fieldNPredict
	fieldNCmpl
	fieldQuery
	fieldQueries
	fieldTexts
	fieldItems
	fieldText1
	fieldText2
	fieldData1
	fieldData2
	fieldSessionID

	fieldPriority
	fieldKVTransferParams
	fieldECTransferParams
	fieldDisaggregatedParams
	fieldMigrationRequest
	fieldWithCache
	fieldPreserveCache
	fieldBootstrapHost
	fieldBootstrapPort
	fieldBootstrapRoom
	fieldRID
	fieldRequestID
	fieldDataParallelRank
	fieldRoutedDPRank
	fieldDisaggPrefillDPRank
	fieldIDSlot
	fieldSlotID
	fieldLoRAPath
	fieldSessionParams
	fieldHTTPWorkerIPC
	fieldLoRAID
	fieldBootstrapPairKey
	fieldDecodeTPSize
	fieldRoutingKey
	fieldCount

	firstSteering = fieldPriority
)

// fieldSet is a set of fields.
type fieldSet [(fieldCount + 63) / 64]uint64

func (s *fieldSet) has(f field) bool { return s[f/64]&(1<<(f%64)) != 0 }

func (s *fieldSet) add(f field) { s[f/64] |= 1 << (f % 64) }

func (f field) String() string { return fieldNames[f] }

func (f field) steers() bool { return f >= firstSteering }

// Fields returns the names of all top-level body fields that are interpreted.
// None of them may appear twice in a body.
func Fields() []string {
	return append([]string(nil), fieldNames[fieldNone+1:]...)
}

// SteeringFields returns the names of the body fields by which a client would
// choose a rank, a slot, an adapter, a place in the engine's queue or a peer to
// fetch a cache from, past the gateway's own choice. They are refused unless
// [Options.AllowFields] has them; a null value counts as absent.
func SteeringFields() []string {
	return append([]string(nil), fieldNames[firstSteering:]...)
}

// maxName bounds how long an escaped spelling of a field's name can be: six
// bytes for each character of the longest one.
const maxName = 6 * len("disagg_prefill_dp_rank")

// lookup finds the field that a key, taken from between its quotes, names.
// exact is false when only the letter case differs: engines written in Go match
// keys that way, all others do not.
func lookup(key []byte) (f field, exact bool) {
	if f = byName(key); f != fieldNone {
		return f, true
	}
	if len(key) > maxName || isPlainLower(key) {
		return fieldNone, false
	}
	var buf [maxName]byte
	name := appendUnescaped(buf[:0], key)
	if f = byName(name); f != fieldNone {
		return f, true
	}
	return byName(foldCase(name)), false
}

// isPlainLower says that a key is spelled in the only way it can be folded to.
func isPlainLower(key []byte) bool {
	for _, c := range key {
		if c == '\\' || c >= 0x80 || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return true
}

// foldCase lowers a name in place as Go's encoding/json folds keys: ASCII, and
// the two characters outside it whose simple folding is an ASCII letter, the
// long s (U+017F) and the Kelvin sign (U+212A).
func foldCase(name []byte) []byte {
	out := name[:0]
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c == 0xC5 && i+1 < len(name) && name[i+1] == 0xBF:
			c, i = 's', i+1
		case c == 0xE2 && i+2 < len(name) && name[i+1] == 0x84 && name[i+2] == 0xAA:
			c, i = 'k', i+2
		}
		out = append(out, c)
	}
	return out
}
