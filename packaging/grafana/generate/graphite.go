package main

// What report.prefix is by default without the host: Graphite's paths are
// PREFIX.HOST.BACKEND.SERVER.{load,weight} and
// PREFIX.HOST.BACKEND.{imbalance,age,changes}. Nodes are counted from the end, so
// that a longer prefix works.
const (
	atBackend = "$prefix.$host.$proxy"
	atServer  = "$prefix.$host.$proxy.$server"
)

func graphiteTarget(expression string) target {
	no := false
	return target{Target: expression, TextEditor: &no}
}

func graphite() *dashboard {
	b := newBoard("graphite", "haproxy-weighter-graphite", "HAProxy weighter (Graphite)",
		"Loads and weights at every load balancer, as the daemons report them to Graphite (the table [report] of weighter.toml).")
	b.Templating.List = append(b.Templating.List, &variable{
		Name: "prefix", Label: "Prefix", Description: "report.prefix of weighter.toml, without its last part {host}.",
		Type: "textbox", Query: "haproxy_weighter",
		Current: map[string]any{"selected": true, "text": "haproxy_weighter", "value": "haproxy_weighter"},
		Options: []any{map[string]any{"selected": true, "text": "haproxy_weighter", "value": "haproxy_weighter"}},
	})
	choose := func(name, label, description, query, regex string) {
		b.choice(name, label, description, query, regex, "*", map[string]string{"query": query, "queryType": "Default", "refId": "GraphiteVariableQueryEditor-VariableQuery", "target": query})
	}
	choose("host", "Host", "Load balancers, by the name of their machine; with a second socket, its name is behind that.", "$prefix.*", "")
	choose("proxy", "Backend", "HAProxy's backends.", "$prefix.$host.*", "")
	choose("server", "Server", "Servers of those backends.", "expand("+atBackend+".*.weight)", `/.*\.([^.]+)\.weight$/`)

	// The newest point may not be there yet: without keepLastValue it would count
	// as nobody.
	b.row("Now")
	b.stat("Balancers", "Load balancers that have reported.", "none", 0, nil,
		graphiteTarget("sumSeries(isNonNull(groupByNodes(keepLastValue("+atBackend+".changes, 3), 'max', -3)))"))
	b.stat("Highest load / mean", "Of the least balanced backend. 1 is perfect balance.", "none", 2, number(2),
		graphiteTarget("maxSeries("+atBackend+".imbalance)"))
	b.stat("Oldest data", "Age of the newest load, of the backend where it is oldest.", "s", 0, nil,
		graphiteTarget("maxSeries("+atBackend+".age)"))

	b.row("Balance")
	b.chart("Load of each server", "Balancers that see different values show the highest.", graph{least: number(0)},
		graphiteTarget("groupByNodes("+atServer+".load, 'max', -3, -2)"))
	b.chart("Highest load over the mean", "1 is perfect balance. Weights steer new connections only, so this falls no faster than connections end.",
		graph{unit: "none", decimals: 2, least: number(1), red: number(2)},
		graphiteTarget("aliasByNode("+atBackend+".imbalance, -3, -2)"))
	b.chart("Weights set at all balancers for the chosen servers", "One line for each balancer: choose one server above. All hosts are shown, whatever is chosen there.",
		graph{unit: "none", steps: true, least: number(0), wide: true},
		graphiteTarget("aliasByNode($prefix.*.$proxy.$server.weight, -4, -3, -2)"))
	b.chart("Weights set by $host for each server", "All servers of the chosen backends.", graph{unit: "none", steps: true, least: number(0), repeat: "host"},
		graphiteTarget("aliasByNode("+atBackend+".*.weight, -3, -2)"))
	b.chart("Weights written", "In each interval of the reports (report.interval).", graph{unit: "none", least: number(0)},
		graphiteTarget("aliasByNode("+atBackend+".changes, -3, -2)"))
	b.chart("Highest loads", "The ten servers with the highest load now.", graph{least: number(0)},
		graphiteTarget("highestCurrent(groupByNodes("+atBackend+".*.load, 'max', -3, -2), 10)"))

	b.row("Data health")
	b.chart("Age of the newest load", "When it passes max_age of the backend, its weights are held.", graph{unit: "s", least: number(0)},
		graphiteTarget("aliasByNode("+atBackend+".age, -3, -2)"))
	b.chart("Servers with a load", "Servers of which a load was reported, by balancer and backend.", graph{unit: "none", least: number(0)},
		graphiteTarget("groupByNodes(isNonNull(keepLastValue("+atBackend+".*.load, 3)), 'sum', -4, -3)"))

	b.row("SPOE and runtime socket")
	b.text("Where they are", "Graphite gets loads, weights, imbalance, age and changes. Holds, faults, SPOE answers and the runtime socket are in Prometheus' format only, at "+
		"`/metrics` of each daemon: the dashboard *HAProxy weighter (Prometheus)* shows them, and `haproxy-weighter status` tells what is wrong now.", 4)
	return &b.dashboard
}
