// Package chart sets the environment that AIBrix's chart gives its gateway, and
// turns its log off. Its packages read the one and write to the other while they
// are initialized; this one, which imports nothing of theirs and whose path sorts
// before theirs, is initialized before. What is set already stays as it is.
package chart

import (
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Of dist/chart/values.yaml and the overlay for releases, v0.7.0.
var environment = map[string]string{
	"AIBRIX_PREFIX_CACHE_TOKENIZER_TYPE":                          "character",
	"AIBRIX_PREFIX_CACHE_BLOCK_SIZE":                              BlockSize,
	"AIBRIX_PREFIX_CACHE_BLOCK_NUMBER":                            "200000",
	"AIBRIX_PREFIX_CACHE_POD_RUNNING_REQUEST_IMBALANCE_ABS_COUNT": "16",
	"AIBRIX_PREFIX_CACHE_STANDARD_DEVIATION_FACTOR":               "2",
}

// BlockSize is how many characters a block has.
const BlockSize = "128"

func init() {
	klog.SetLogger(logr.Discard())
	for name, value := range environment {
		if _, set := os.LookupEnv(name); !set {
			_ = os.Setenv(name, value) // fails for names with an "=" only
		}
	}
}
