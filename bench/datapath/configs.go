package main

import (
	"fmt"
	"os"
	"strings"
)

// What the systems are told. Each listens on one address, writes no access log, and
// may use all cores: Go's own default for both Caddys, a worker for each core for
// nginx, a thread for each core for HAProxy (what it takes by itself, said aloud).

// caddyfile is the same for both Caddys but for one directive.
func caddyfile(directive string) func(setting) ([]string, error) {
	return func(s setting) ([]string, error) {
		_, port, _ := strings.Cut(s.listen, ":")
		path, err := s.write("Caddyfile", fmt.Sprintf(`{
	admin %s
	default_bind 127.0.0.1
	persist_config off
	# HTTP/2 and 3 need TLS.
	servers {
		protocols h1
	}
}

http://:%s {
	%s
}
`, s.admin, port, strings.ReplaceAll(directive, "UPSTREAMS", strings.Join(s.endpoints, " "))))
		return []string{"run", "--config", path, "--adapter", "caddyfile"}, err
	}
}

const (
	// oursDirective is all that an operator has to write.
	oursDirective = "llm_proxy UPSTREAMS"
	// plainDirective is what somebody writes who has only Caddy. It flushes streams
	// of events by itself.
	plainDirective = "reverse_proxy UPSTREAMS {\n\t\tlb_policy least_conn\n\t}"
)

// haproxyConfig: without http-no-delay it delivers streams in lumps; with
// http-reuse always it opens no connection while another is idle, which is the
// cheaper for it.
func haproxyConfig(cores int) func(setting) ([]string, error) {
	return func(s setting) ([]string, error) {
		var servers strings.Builder
		for i, e := range s.endpoints {
			fmt.Fprintf(&servers, "\tserver s%d %s\n", i, e)
		}
		path, err := s.write("haproxy.cfg", fmt.Sprintf(`global
	nbthread %d
	maxconn %d
defaults
	mode http
	option http-no-delay
	option http-keep-alive
	http-reuse always
	timeout connect 5s
	timeout client 300s
	timeout server 300s
	timeout http-keep-alive 300s
frontend in
	bind %s
	default_backend engines
backend engines
	balance leastconn
%s`, cores, s.most, s.listen, servers.String()))
		return []string{"-db", "-f", path}, err
	}
}

// nginxConfig: it buffers neither requests nor answers, and keeps connections to
// the engines. Workers run as who started it: other users cannot read its folder.
func nginxConfig(s setting) ([]string, error) {
	var servers strings.Builder
	for _, e := range s.endpoints {
		fmt.Fprintf(&servers, "\t\tserver %s;\n", e)
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n"
	}
	path, err := s.write("nginx.conf", fmt.Sprintf(`%sdaemon off;
pid nginx.pid;
worker_processes auto;
worker_rlimit_nofile %d;
error_log stderr;
events {
	worker_connections %d;
}
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	client_max_body_size 64m;
	keepalive_requests 100000000;
	keepalive_timeout 300s;
	upstream engines {
		least_conn;
%s		keepalive 256;
		keepalive_requests 100000000;
	}
	server {
		listen %s;
		location / {
			proxy_pass http://engines;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_buffering off;
			proxy_request_buffering off;
			proxy_read_timeout 300s;
		}
	}
}
`, user, 2*s.most+100, 2*s.most+100, servers.String(), s.listen))
	return []string{"-p", s.folder, "-e", "stderr", "-c", path}, err
}
