package request

// field is a top-level body field that we interpret.
type field uint8

// The order matters twice: steering fields come last, and all of them fit in a
// 64-bit set.
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
	fieldCount

	firstSteering = fieldPriority
)

// fieldNames holds each field's proper name.
var fieldNames = [fieldCount]string{
	fieldModel:               "model",
	fieldMessages:            "messages",
	fieldPrompt:              "prompt",
	fieldSuffix:              "suffix",
	fieldPromptEmbeds:        "prompt_embeds",
	fieldStream:              "stream",
	fieldStreamOptions:       "stream_options",
	fieldMaxTokens:           "max_tokens",
	fieldMaxCompletionTokens: "max_completion_tokens",
	fieldN:                   "n",
	fieldBestOf:              "best_of",
	fieldTools:               "tools",
	fieldFunctions:           "functions",
	fieldDocuments:           "documents",
	fieldChatTemplate:        "chat_template",
	fieldChatTemplateKwargs:  "chat_template_kwargs",
	fieldReasoningEffort:     "reasoning_effort",
	fieldMMProcessorKwargs:   "mm_processor_kwargs",
	fieldAddSpecialTokens:    "add_special_tokens",
	fieldCacheSalt:           "cache_salt",
	fieldExtraKey:            "extra_key",
	fieldLoRA:                "lora",
	fieldPromptCacheKey:      "prompt_cache_key",
	fieldPriority:            "priority",
	fieldKVTransferParams:    "kv_transfer_params",
	fieldECTransferParams:    "ec_transfer_params",
	fieldDisaggregatedParams: "disaggregated_params",
	fieldMigrationRequest:    "migration_request",
	fieldWithCache:           "with_cache",
	fieldPreserveCache:       "preserve_cache",
	fieldBootstrapHost:       "bootstrap_host",
	fieldBootstrapPort:       "bootstrap_port",
	fieldBootstrapRoom:       "bootstrap_room",
	fieldRID:                 "rid",
	fieldRequestID:           "request_id",
	fieldDataParallelRank:    "data_parallel_rank",
	fieldRoutedDPRank:        "routed_dp_rank",
	fieldDisaggPrefillDPRank: "disagg_prefill_dp_rank",
	fieldIDSlot:              "id_slot",
	fieldSlotID:              "slot_id",
	fieldLoRAPath:            "lora_path",
	fieldSessionParams:       "session_params",
}

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

// byName finds a field by its exact name. The compiler turns the switch into a
// search by length and bytes, without a hash or an allocation.
func byName(name []byte) field {
	switch string(name) {
	case "model":
		return fieldModel
	case "messages":
		return fieldMessages
	case "prompt":
		return fieldPrompt
	case "suffix":
		return fieldSuffix
	case "prompt_embeds":
		return fieldPromptEmbeds
	case "stream":
		return fieldStream
	case "stream_options":
		return fieldStreamOptions
	case "max_tokens":
		return fieldMaxTokens
	case "max_completion_tokens":
		return fieldMaxCompletionTokens
	case "n":
		return fieldN
	case "best_of":
		return fieldBestOf
	case "tools":
		return fieldTools
	case "functions":
		return fieldFunctions
	case "documents":
		return fieldDocuments
	case "chat_template":
		return fieldChatTemplate
	case "chat_template_kwargs":
		return fieldChatTemplateKwargs
	case "reasoning_effort":
		return fieldReasoningEffort
	case "mm_processor_kwargs":
		return fieldMMProcessorKwargs
	case "add_special_tokens":
		return fieldAddSpecialTokens
	case "cache_salt":
		return fieldCacheSalt
	case "extra_key":
		return fieldExtraKey
	case "lora":
		return fieldLoRA
	case "prompt_cache_key":
		return fieldPromptCacheKey
	case "priority":
		return fieldPriority
	case "kv_transfer_params":
		return fieldKVTransferParams
	case "ec_transfer_params":
		return fieldECTransferParams
	case "disaggregated_params":
		return fieldDisaggregatedParams
	case "migration_request":
		return fieldMigrationRequest
	case "with_cache":
		return fieldWithCache
	case "preserve_cache":
		return fieldPreserveCache
	case "bootstrap_host":
		return fieldBootstrapHost
	case "bootstrap_port":
		return fieldBootstrapPort
	case "bootstrap_room":
		return fieldBootstrapRoom
	case "rid":
		return fieldRID
	case "request_id":
		return fieldRequestID
	case "data_parallel_rank":
		return fieldDataParallelRank
	case "routed_dp_rank":
		return fieldRoutedDPRank
	case "disagg_prefill_dp_rank":
		return fieldDisaggPrefillDPRank
	case "id_slot":
		return fieldIDSlot
	case "slot_id":
		return fieldSlotID
	case "lora_path":
		return fieldLoRAPath
	case "session_params":
		return fieldSessionParams
	}
	return fieldNone
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
