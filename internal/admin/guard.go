package admin

import (
	"net"
	"net/http"
	"strings"
)

// sane refuses reads that no honest client sends: those with a body, and those
// that a page of another site makes a browser send.
//
// A page of another site can't read our answers, since we allow no other
// origin; but it could take up event streams. And by DNS rebinding (its own
// name suddenly stands for 127.0.0.1) it could become our origin: hence on a
// loopback listener Host must be an address, localhost or this machine's name.
// On other addresses the names by which a machine is reached can't be known,
// and whoever reaches them may read them anyway.
func (s *Server) sane(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.ContentLength != 0:
		w.Header().Set("Connection", "close")
		problem(w, http.StatusRequestEntityTooLarge, "a request that reads has no body", "send it without")
	case onLoopback(r) && !s.ownName(r.Host):
		problem(w, http.StatusMisdirectedRequest, "this listener is for this machine only, and the header Host names another",
			"use http://127.0.0.1 or http://localhost with the port; a proxy in front must send such a Host")
	case foreign(r):
		problem(w, http.StatusForbidden, "a page of another site has made this request", "open the address itself")
	default:
		return true
	}
	return false
}

// onLoopback tells whether the request came in on a loopback address.
func onLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.IP.IsLoopback()
}

// ownName tells whether a header Host can only mean this machine. HTTP/1.0
// knows no such header; browsers always send it.
func (s *Server) ownName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		net.ParseIP(host) != nil || host == strings.ToLower(s.hostname)
}

// foreign tells whether a browser says that another site's page asks, other
// than by a link that its user has followed.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return r.Header.Get("Sec-Fetch-Mode") != "navigate"
	}
	return false
}
