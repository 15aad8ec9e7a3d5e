package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"
)

// protocols are what clients speak to a gateway behind TLS.
var protocols = []string{"h1", "h2", "h3"}

// identity is the certificate of the tests' gateways, made once.
var identity = sync.OnceValues(func() (certificate, key []byte) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		panic(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
})

// secure is start behind TLS: HTTP/1.1, HTTP/2 and HTTP/3 on one port. Its clients
// come from over.
func secure(t *testing.T, site string) *gateway {
	t.Helper()
	dir := t.TempDir()
	certificate, key := identity()
	for name, content := range map[string][]byte{"cert.pem": certificate, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	site = fmt.Sprintf("tls %s %s\n%s", filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), site)
	g := &gateway{t: t}
	g.run(site, func() string {
		_, port, _ := net.SplitHostPort(freeAddr(t))
		return "https://localhost:" + port
	})
	return g
}

// over returns a client that speaks this protocol alone, over connections of its
// own.
func (g *gateway) over(t *testing.T, protocol string) *http.Client {
	t.Helper()
	return g.client(t, protocol, false)
}

// slowly returns such a client that can take in only some KiB of an answer which
// nobody reads.
func (g *gateway) slowly(t *testing.T, protocol string) *http.Client {
	t.Helper()
	return g.client(t, protocol, true)
}

func (g *gateway) client(t *testing.T, protocol string, slow bool) *http.Client {
	t.Helper()
	certificate, _ := identity()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	trust := &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}
	if protocol == "h3" {
		config := &quic.Config{KeepAlivePeriod: time.Second}
		if slow {
			config.InitialStreamReceiveWindow, config.MaxStreamReceiveWindow = 16<<10, 16<<10
		}
		transport := &http3.Transport{
			TLSClientConfig: trust, QUICConfig: config,
			Dial: func(ctx context.Context, addr string, tlsConfig *tls.Config, quicConfig *quic.Config) (*quic.Conn, error) {
				return quic.DialAddrEarly(ctx, loopback(addr), tlsConfig, quicConfig)
			},
		}
		t.Cleanup(func() { transport.Close() })
		return &http.Client{Transport: transport}
	}
	dialer := &net.Dialer{}
	if slow {
		dialer.Control = smallWindow
	}
	transport := &http.Transport{
		TLSClientConfig: trust, Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, loopback(addr))
		},
	}
	if protocol == "h1" {
		transport.Protocols.SetHTTP1(true)
	} else {
		transport.Protocols.SetHTTP2(true)
		transport.MaxConnsPerHost = 1 // all streams on one
		if slow {
			transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
		}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// loopback is where localhost is, whatever the system's resolver says.
func loopback(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return net.JoinHostPort("127.0.0.1", port)
}

// smallWindow has the kernel take in 4 KiB at most for a socket that nobody reads.
func smallWindow(_, _ string, c syscall.RawConn) error {
	var wrong error
	err := c.Control(func(fd uintptr) {
		wrong = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
	})
	return errors.Join(err, wrong)
}

// brokenOff reports whether an error met while reading an answer is the
// protocol's way of saying that the other side broke it off.
func brokenOff(protocol string, err error) bool {
	switch protocol {
	case "h2":
		reset, ok := errors.AsType[http2.StreamError](err)
		return ok && reset.Code == http2.ErrCodeInternal
	case "h3":
		reset, ok := errors.AsType[*http3.Error](err)
		return ok && reset.Remote && reset.ErrorCode == http3.ErrCodeInternalError
	}
	return errors.Is(err, io.ErrUnexpectedEOF)
}

// Each of the clients speaks what it is said to speak.
func TestClientsSpeakTheirProtocols(t *testing.T) {
	a := newBackend(t)
	g := secure(t, fmt.Sprintf("llm_proxy %s {\n%s}\n", a.addr(), fast))
	for i, protocol := range protocols {
		for _, client := range []*http.Client{g.over(t, protocol), g.slowly(t, protocol)} {
			res, err := client.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat(true, "", "hi")))
			if err != nil {
				t.Fatalf("%s: %v", protocol, err)
			}
			if r := read(t, res); r.body != streamed() || res.ProtoMajor != i+1 {
				t.Errorf("%s: HTTP/%d, body %q", protocol, res.ProtoMajor, r.body)
			}
		}
	}
}
