package cli

import (
	"context"
	"slices"
	"strings"
)

// Bounds of a walk through Graphite's tree. A large Graphite has millions of
// names; servers are near the root or not worth a guess.
const (
	mostQuestions = 300 // for names, in all
	levelsAbove   = 4   // parts of the path down to the servers
	levelsBelow   = 5   // parts of the path below a server
	mostLeaves    = 200 // series of one server
)

// tree looks for the places in Graphite's tree whose names are those of servers,
// and tries what is below.
func (s *search) tree(ctx context.Context, backends []*initBackend) error {
	paths := make(map[*initBackend][]string)
	prefixes := []string{""}
	for level := 0; level < levelsAbove && len(prefixes) > 0; level++ {
		var next []string
		for _, prefix := range prefixes {
			names, err := s.below(ctx, prefix)
			if err != nil {
				return err
			}
			are, err := s.place(ctx, prefix, names, backends, paths)
			if err != nil {
				return err
			}
			for _, n := range names {
				if !n.leaf && !are {
					next = append(next, prefix+n.name+".")
				}
			}
		}
		prefixes = next
	}
	for _, b := range backends {
		if err := s.paths(ctx, paths[b], []*initBackend{b}); err != nil {
			return err
		}
	}
	return nil
}

// place looks whether the names below prefix are servers, and adds the paths of
// their series for each backend that they are of. Where they are servers of one
// the others are servers too, and nothing to look behind.
func (s *search) place(ctx context.Context, prefix string, names []node, backends []*initBackend, paths map[*initBackend][]string) (are bool, err error) {
	for _, b := range backends {
		if !b.weightable() {
			continue
		}
		one := serverAmong(names, b)
		if one == nil {
			continue
		}
		are = true
		found, err := s.leavesOf(ctx, prefix, *one)
		if err != nil {
			return false, err
		}
		paths[b] = append(paths[b], found...)
	}
	return are, nil
}

// node is a name in the tree.
type node struct {
	name string
	leaf bool
}

// below lists what is below a path, which ends in a dot or is empty. It gives
// nothing once enough has been asked.
func (s *search) below(ctx context.Context, path string) ([]node, error) {
	if s.asked >= mostQuestions {
		s.cut = true
		return nil, nil
	}
	s.asked++
	found, err := s.client.Find(ctx, path+"*")
	if err != nil {
		return nil, err
	}
	var nodes []node
	for _, f := range found {
		if plainNode(f.Name) {
			nodes = append(nodes, node{f.Name, f.Leaf})
		}
	}
	return nodes, nil
}

// plainNode tells whether a name can stand in a target as it is. Anything may be
// in Graphite's tree: whoever may send data there makes its names.
func plainNode(name string) bool {
	return name != "" && len(name) <= 200 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:%@+-") == ""
}

// serverAmong gives one of the names that are servers of a backend, when at
// least half of its servers, and two, are among them; else nil.
func serverAmong(names []node, b *initBackend) *node {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = n.name
	}
	rule, matched := bestNaming(list, b.servers, true)
	if matched < 2 || 2*matched < len(b.servers) {
		return nil
	}
	rename, err := rule.compile()
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(names, func(n node) bool { return slices.Contains(b.servers, rename(n.name)) })
	if i < 0 {
		return nil
	}
	return &names[i]
}

// leavesOf lists the series of one server as patterns for all: its own part of
// the path is a wildcard.
func (s *search) leavesOf(ctx context.Context, prefix string, server node) ([]string, error) {
	if server.leaf {
		return []string{prefix + "*"}, nil
	}
	tails, err := s.leaves(ctx, prefix+server.name)
	if err != nil {
		return nil, err
	}
	for i, path := range tails {
		tails[i] = prefix + "*" + strings.TrimPrefix(path, prefix+server.name)
	}
	return tails, nil
}

// leaves lists the paths of the series below a path or a pattern.
func (s *search) leaves(ctx context.Context, path string) ([]string, error) {
	var found []string
	branches := []string{path + "."}
	for level := 0; level < levelsBelow && len(branches) > 0; level++ {
		var next []string
		for _, branch := range branches {
			names, err := s.below(ctx, branch)
			if err != nil {
				return nil, err
			}
			for _, n := range names {
				switch {
				case !n.leaf:
					next = append(next, branch+n.name+".")
				case len(found) < mostLeaves:
					found = append(found, branch+n.name)
				default:
					s.cut = true
				}
			}
		}
		branches = next
	}
	return found, nil
}
