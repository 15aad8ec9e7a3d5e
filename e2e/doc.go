// Package e2e tests the module as its users meet it: a Caddyfile, a real Caddy,
// real HTTP on loopback, and inference servers whose metrics and answers the
// test scripts. It holds tests only.
package e2e
