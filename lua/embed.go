package lua

import (
	"embed"
	"io/fs"
)

//go:embed weighter.lua route.lua haproxy
var forHAProxy embed.FS

// ForHAProxy has the files that users copy to HAProxy: weighter.lua and
// route.lua, and for each a configuration in which it runs, haproxy/weighter
// and haproxy/route, with whatever else that needs beside it.
func ForHAProxy() fs.FS { return forHAProxy }
