package health

import (
	"context"
	"crypto/tls"
	"net/http/httptrace"
	"sync"
)

// dialTrace tells whether an exchange failed before there was a connection.
// The error alone does not: a deadline that passes while dialing looks like one
// that passes later, and Caddy's transport hides the cause of a failed dial.
type dialTrace struct {
	mu        sync.Mutex // hooks run on the transport's goroutines, even after RoundTrip
	dialing   bool       // begun, and not known to have succeeded
	connected bool
	err       error // of the last dial or lookup that failed
}

func (d *dialTrace) trace(ctx context.Context) context.Context {
	begin := func() {
		d.mu.Lock()
		d.dialing, d.connected = true, false
		d.mu.Unlock()
	}
	end := func(err error) {
		d.mu.Lock()
		if err == nil {
			d.dialing, d.connected = false, true
		} else {
			d.err = err
		}
		d.mu.Unlock()
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) { begin() },
		DNSDone: func(info httptrace.DNSDoneInfo) {
			if info.Err != nil {
				end(info.Err)
			}
		},
		ConnectStart: func(string, string) { begin() },
		ConnectDone:  func(_, _ string, err error) { end(err) },
		GotConn:      func(httptrace.GotConnInfo) { end(nil) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err == nil {
				end(nil)
			}
		},
	})
}

// reset makes it ready for another exchange on the same way.
func (d *dialTrace) reset() {
	d.mu.Lock()
	d.dialing, d.connected, d.err = false, false, nil
	d.mu.Unlock()
}

// failed reports whether the exchange ended because no connection could be
// made. A request that merely waited for a free connection did not.
func (d *dialTrace) failed(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.connected && (d.dialing || isDial(err))
}

// cause returns the error behind a failed dial where it is known.
func (d *dialTrace) cause(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.connected && d.err != nil {
		return d.err
	}
	return err
}
