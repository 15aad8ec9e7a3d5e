package status

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"sync"
)

// tokenHeader carries the token of an action. That it is no header which a form can
// send keeps other sites out, too.
const tokenHeader = "X-LLM-Status-Token" //nolint:gosec // the name of a header, and no secret

// token is the secret in every page with buttons. It lives as long as the process.
var token = sync.OnceValue(random)

// boot names the process, so that a page can tell that its token is of another. It
// is no secret.
var boot = sync.OnceValue(random)

func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: the program is ended instead
	return hex.EncodeToString(b[:])
}

func validToken(s string) bool {
	return subtle.ConstantTimeCompare([]byte(s), []byte(token())) == 1
}
