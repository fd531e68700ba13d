// Package luahaproxy tests what lua/weighter.lua and lua/route.lua do inside
// real HAProxies: that they answer as the SPOE agent and the maps do, what
// faults of the listener cost, and that the shipped configurations and those
// of docs/lua.md run. It has nothing but tests.
package luahaproxy
