package graphite

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Found is one name at the level of the last part of a pattern.
type Found struct {
	Name string // without the path before it; never empty
	Leaf bool   // a series of this name ends there; else further names are below
}

// maxFindPattern is far above any path, in bytes, and fits into an address.
const maxFindPattern = 2000

// Find lists the names that the last part of a pattern stands for, such as
// "node-1" and "node-2" for "tcp-service.*", in the server's order. Where the
// parts before it have wildcards too, each name is there once. An empty list
// means that nothing matched.
//
// It asks metrics/find, beside render, under the rules of [Client.Render]: one
// retry, the same timeout and limits, and a *RenderError for every error.
// Names are as the server has them: anything may be in them.
func (c *Client) Find(ctx context.Context, pattern string) ([]Found, error) {
	if err := checkPattern(pattern); err != nil {
		return nil, c.fail(&RenderError{Kind: KindRequest, text: err.Error()})
	}
	e := c.endpoint.beside("metrics", "find")
	// This format is the one that all servers have: it is that of their own tree.
	form := url.Values{"query": {pattern}, "format": {"treejson"}}.Encode()
	var found []Found
	retries := 1
	err := c.ask(ctx, &retries, func(limited context.Context) *RenderError {
		said, err := c.exchange(ctx, limited, &e, form, &place{})
		if err != nil {
			return err
		}
		var derr *decodeError
		if found, derr = decodeFound(said.body); derr != nil {
			return &RenderError{Kind: derr.kind, Status: said.status, text: c.explain(derr, said.body)}
		}
		return nil
	})
	if err != nil {
		return nil, c.fail(err)
	}
	return found, nil
}

func checkPattern(pattern string) error {
	switch {
	case pattern == "":
		return errors.New("the pattern to look for is empty")
	case len(pattern) > maxFindPattern:
		return errors.New("the pattern to look for is too long")
	case !utf8.ValidString(pattern):
		return errors.New("the pattern to look for is not UTF-8")
	}
	return nil
}

// beside is the endpoint at another path, in place of "render".
func (e *endpoint) beside(path ...string) endpoint {
	other := *e
	other.url = *e.url.JoinPath(append([]string{".."}, path...)...)
	return other
}

// decodeFound reads the nodes of a tree. What else they hold differs between
// servers.
func decodeFound(body []byte) ([]Found, *decodeError) {
	var nodes []struct {
		ID   string `json:"id"` // the pattern, with the name as its last part
		Text string `json:"text"`
		Leaf any    `json:"leaf"` // a number or a boolean
	}
	switch err := json.Unmarshal(body, &nodes); {
	case len(body) == 0:
		return nil, &decodeError{KindEmpty, "it answered 200 with an empty body: check the proxy in front of it", -1}
	case err != nil && json.Valid(body), err == nil && nodes == nil:
		return nil, &decodeError{KindNotSeries, "its answer is JSON, but not a list of what was found: check that url is a Graphite; it begins with ", 0}
	case err != nil:
		return nil, &decodeError{KindNotJSON, "its answer is no whole JSON; it begins with ", 0}
	}
	found := make([]Found, 0, len(nodes))
	for _, n := range nodes {
		// Some servers decode "%20" and the like in text.
		name := n.ID[strings.LastIndexByte(n.ID, '.')+1:]
		if name == "" {
			name = n.Text
		}
		if name == "" || name == "*" { // a node "all" that graphite-web can be told to add
			continue
		}
		found = append(found, Found{Name: name, Leaf: n.Leaf == true || n.Leaf == 1.0})
	}
	return found, nil
}
