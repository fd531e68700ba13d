package admin

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for the parts of the page
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"
)

//go:embed page/page.html
var pageHTML string

//go:embed page/page.css
var pageCSS string

//go:embed page/page.js
var pageJS string

// pageTemplate is the status page; pagePolicy lets the browser use the style
// and the script that are in it, ask this server, and nothing else.
var (
	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
		"rfc":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock":   func(t time.Time) string { return t.UTC().Format(time.TimeOnly) },
		"date":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
		"stamp":   stamp,
		"address": address,
	}).Parse(pageHTML))
	pagePolicy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; connect-src 'self'; img-src data:; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'", hashOf(pageCSS), hashOf(pageJS))
)

// hashOf is how a Content-Security-Policy names an inline style or script.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// stamp is a time of day, with the date when it was another day.
func stamp(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format("01-02 15:04")
}

// Style is the page's style sheet, exactly as its hash is made.
func (v view) Style() template.HTML { return template.HTML("<style>" + pageCSS + "</style>") }

// Script is the page's script, exactly as its hash is made.
func (v view) Script() template.HTML { return template.HTML("<script>" + pageJS + "</script>") }

// orders of servers that the page takes.
var sortOrders = []string{byWorst, byName, byLoad, byShare, byWeight, bySessions, byAge}

// servePage answers with the status page: backend=NAME leaves out the other
// backends, sort=COLUMN sorts the servers.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	only, order := q.Get("backend"), q.Get("sort")
	if only != "" && s.backend(w, only) == nil {
		return
	}
	if !slices.Contains(sortOrders, order) {
		order = byWorst
	}
	release, ok := s.acquire(w, r)
	if !ok {
		return
	}
	defer release()
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, s.view(only, order)); err != nil {
		s.log.Error("the status page can't be made", "cause", err.Error(), "do", "report it with this line")
		problem(w, http.StatusInternalServerError, "the page can't be made: "+err.Error(), "report it; the JSON is at /api/v1/status")
		return
	}
	w.Header().Set("Content-Security-Policy", pagePolicy)
	send(w, http.StatusOK, "text/html; charset=utf-8", body.Bytes())
}
