package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// request sends one request whose target is written exactly as given, which no
// HTTP client does. ok is false when the gateway just closed the connection.
func request(t *testing.T, g *gateway, method, target string) (status int, ok bool) {
	t.Helper()
	host := strings.TrimPrefix(g.url, "http://")
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", method, target, host)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, false
	}
	res.Body.Close()
	return res.StatusCode, true
}
