package main

// The choices of the variables, as selectors.
const (
	ofHost    = `instance=~"$host"`
	ofBackend = `instance=~"$host",proxy=~"$proxy"`
	ofServer  = `instance=~"$host",proxy=~"$proxy",server=~"$server"`
)

// promql is a query with its legend; empty: one line with the panel's title.
func promql(expr, legend string) target {
	yes, no := true, false
	if legend == "" {
		legend = "__auto"
	}
	return target{Expr: expr, LegendFormat: legend, Range: &yes, Instant: &no, EditorMode: "code"}
}

func prometheus() *dashboard {
	b := newBoard("prometheus", "haproxy-weighter-prometheus", "HAProxy weighter (Prometheus)",
		"Loads, weights and the health of haproxy-weighter at every load balancer, from the /metrics of its daemons.")
	choose := func(name, label, description, query string) {
		b.choice(name, label, description, query, "", ".*", map[string]string{"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"})
	}
	choose("host", "Host", "Load balancers, by the address of their daemon.", `label_values(haproxy_weighter_build_info, instance)`)
	choose("proxy", "Backend", "HAProxy's backends.", `label_values(haproxy_weighter_backend_servers{`+ofHost+`}, proxy)`)
	choose("server", "Server", "Servers of those backends.", `label_values(haproxy_weighter_server_weight{`+ofBackend+`}, server)`)
	overview(b)
	balance(b)
	dataHealth(b)
	spoe(b)
	runtimeSocket(b)
	daemon(b)
	return &b.dashboard
}

func overview(b *board) {
	b.row("Now")
	b.stat("Daemons", "Daemons that Prometheus reaches.", "none", 0, nil,
		promql(`count(haproxy_weighter_build_info{`+ofHost+`})`, ""))
	b.stat("Open faults", "Things that are wrong now, a freeze included. The status page of the daemon tells each in words, with what to do.", "none", 0, number(1),
		promql(`sum(haproxy_weighter_faults{`+ofHost+`})`, ""))
	b.stat("Highest load / mean", "Of the least balanced backend. 1 is perfect balance.", "none", 2, number(2),
		promql(`max(haproxy_weighter_backend_imbalance_ratio{`+ofBackend+`})`, ""))
	b.stat("Stale backends", "Backends without a single usable load: their weights stay as they are.", "none", 0, number(1),
		promql(`sum(haproxy_weighter_backend_stale{`+ofBackend+`})`, ""))
	b.stat("Held backends", "Backends whose weights are held for any cause but a freeze.", "none", 0, number(1),
		promql(`sum(max by (instance, proxy, socket) (haproxy_weighter_backend_hold{`+ofBackend+`,code!="frozen"}))`, ""))
	b.stat("Frozen backends", "Backends whose weights an operator keeps as they are.", "none", 0, number(1),
		promql(`sum(haproxy_weighter_backend_frozen{`+ofBackend+`})`, ""))
	b.stat("Pinned servers", "Servers that an operator keeps at a weight.", "none", 0, number(1),
		promql(`sum(haproxy_weighter_backend_pins{`+ofBackend+`})`, ""))
	b.stat("Observed backends", "Backends in mode observe: weights are computed and not set.", "none", 0, number(1),
		promql(`sum(haproxy_weighter_backend_observe{`+ofBackend+`})`, ""))
}

func balance(b *board) {
	b.row("Balance")
	b.chart("Load of each server", "As aggregated from Graphite. Balancers that see different values show the highest.", graph{least: number(0)},
		promql(`max by (proxy, server) (haproxy_weighter_server_load{`+ofServer+`})`, "{{proxy}}/{{server}}"))
	b.chart("Highest load over the mean", "1 is perfect balance. Weights steer new connections only, so this falls no faster than connections end.",
		graph{unit: "none", decimals: 2, least: number(1), red: number(2)},
		promql(`haproxy_weighter_backend_imbalance_ratio{`+ofBackend+`}`, "{{proxy}} at {{instance}} {{socket}}"))
	b.chart("Weights set at all balancers for the chosen servers", "One line for each balancer: choose one server above. All hosts are shown, whatever is chosen there.",
		graph{unit: "none", steps: true, least: number(0), wide: true},
		promql(`haproxy_weighter_server_weight{proxy=~"$proxy",server=~"$server"}`, "{{proxy}}/{{server}} at {{instance}} {{socket}}"))
	b.chart("Weights set by $host for each server", "All servers of the chosen backends.",
		graph{unit: "none", steps: true, least: number(0), repeat: "host"},
		promql(`haproxy_weighter_server_weight{`+ofBackend+`}`, "{{proxy}}/{{server}} {{socket}}"))
	b.chart("Share of new connections", "What each server should get, by its weight in the last pass. Of several balancers the mean.",
		graph{unit: "percentunit", least: number(0)},
		promql(`avg by (proxy, server) (haproxy_weighter_server_share_ratio{`+ofServer+`})`, "{{proxy}}/{{server}}"))
	b.chart("Weight wanted beyond the weight in force", "Not 0 for long: mode observe, a freeze, or HAProxy does not take the weight.",
		graph{unit: "none", steps: true},
		promql(`haproxy_weighter_server_computed_weight{`+ofServer+`} - haproxy_weighter_server_weight{`+ofServer+`}`, "{{proxy}}/{{server}} at {{instance}} {{socket}}"))
	b.chart("Weights written", "Weights that changed, a minute.", graph{unit: "opm", least: number(0)},
		promql(`60 * sum by (instance, proxy) (rate(haproxy_weighter_backend_weight_changes_total{`+ofBackend+`}[$__rate_interval]))`, "{{proxy}} at {{instance}}"))
	b.chart("Weights set by somebody else", "Weights that a pass found other than it had left them, a minute. They are taken back.", graph{unit: "opm", least: number(0)},
		promql(`60 * sum by (instance, proxy) (rate(haproxy_weighter_backend_foreign_weights_total{`+ofBackend+`}[$__rate_interval]))`, "{{proxy}} at {{instance}}"))
	b.chart("Loop gain", "Gain of the function times delay over lifetime of connections: above 0.7 weights begin to swing (docs/tuning.md).", graph{unit: "none", decimals: 2, least: number(0)},
		promql(`haproxy_weighter_backend_loop_gain{`+ofBackend+`}`, "{{proxy}} at {{instance}} {{socket}}"))
	b.chart("Lifetime of connections", "Mean lifetime, and the delay of the loop that it is compared with.", graph{unit: "s", least: number(0), limit: "delay"},
		promql(`max by (proxy) (haproxy_weighter_backend_connection_lifetime_seconds{`+ofBackend+`})`, "{{proxy}}"),
		promql(`max by (proxy) (haproxy_weighter_backend_loop_delay_seconds{`+ofBackend+`})`, "delay of {{proxy}}"))
}

func dataHealth(b *board) {
	b.row("Data health")
	b.chart("Age of the newest load", "Grows between two passes. Dashed: max_age, above which a load does not count.", graph{unit: "s", least: number(0), limit: "max_age"},
		promql(`haproxy_weighter_backend_data_age_seconds{`+ofBackend+`}`, "{{proxy}} at {{instance}} {{socket}}"),
		promql(`max by (proxy) (haproxy_weighter_backend_max_age_seconds{`+ofBackend+`})`, "max_age of {{proxy}}"))
	b.chart("Servers with fresh data", "Part of the servers in rotation whose load counts.", graph{unit: "percentunit", least: number(0)},
		promql(`haproxy_weighter_backend_servers_fresh{`+ofBackend+`} / haproxy_weighter_backend_servers_in_service{`+ofBackend+`}`, "{{proxy}} at {{instance}} {{socket}}"))
	b.chart("Oldest loads", "The ten servers whose load is oldest.", graph{unit: "s", least: number(0)},
		promql(`topk(10, max by (proxy, server) (haproxy_weighter_server_load_age_seconds{`+ofServer+`}))`, "{{proxy}}/{{server}}"))
	b.chart("Backends held, by cause", "docs/metrics.md explains the causes.", graph{unit: "none", stacked: true, least: number(0)},
		promql(`sum by (code) (haproxy_weighter_backend_hold{`+ofBackend+`})`, "{{code}}"))
	b.chart("Passes", "By what they wanted done, a minute.", graph{unit: "opm", stacked: true, least: number(0)},
		promql(`60 * sum by (verdict) (rate(haproxy_weighter_backend_passes_total{`+ofBackend+`}[$__rate_interval]))`, "{{verdict}}"))
	b.chart("Time since the last pass", "Should stay below the interval of the backend, a little more at times.", graph{unit: "s", least: number(0)},
		promql(`time() - haproxy_weighter_backend_last_pass_timestamp_seconds{`+ofBackend+`}`, "{{proxy}} at {{instance}} {{socket}}"))
	b.chart("Requests to Graphite", "By what became of them, a minute.", graph{unit: "opm", stacked: true, least: number(0)},
		promql(`60 * sum by (result) (rate(haproxy_weighter_graphite_renders_total{`+ofBackend+`}[$__rate_interval]))`, "{{result}}"))
	b.chart("Time of requests to Graphite", "Up to the whole answer.", graph{unit: "s", least: number(0)},
		promql(`histogram_quantile(0.5, sum by (proxy, le) (rate(haproxy_weighter_graphite_render_duration_seconds_bucket{`+ofBackend+`}[$__rate_interval])))`, "{{proxy}}, median"),
		promql(`histogram_quantile(0.99, sum by (proxy, le) (rate(haproxy_weighter_graphite_render_duration_seconds_bucket{`+ofBackend+`}[$__rate_interval])))`, "{{proxy}}, 99 %"))
}

func spoe(b *board) {
	b.row("SPOE")
	b.chart("Frames", "By what became of them. All but ok went out without variables.", graph{unit: "reqps", stacked: true, least: number(0)},
		promql(`sum by (result) (rate(haproxy_weighter_spoe_frames_total{`+ofHost+`}[$__rate_interval]))`, "{{result}}"))
	b.chart("Time of an answer", "From having read a frame to having written its ACK. HAProxy waits 20 ms as shipped.", graph{unit: "s", least: number(0)},
		promql(`histogram_quantile(0.5, sum by (le) (rate(haproxy_weighter_spoe_frame_duration_seconds_bucket{`+ofHost+`}[$__rate_interval])))`, "median"),
		promql(`histogram_quantile(0.99, sum by (le) (rate(haproxy_weighter_spoe_frame_duration_seconds_bucket{`+ofHost+`}[$__rate_interval])))`, "99 %"),
		promql(`histogram_quantile(0.999, sum by (le) (rate(haproxy_weighter_spoe_frame_duration_seconds_bucket{`+ofHost+`}[$__rate_interval])))`, "99.9 %"))
	b.chart("Messages", "By name and by what became of them.", graph{unit: "reqps", stacked: true, least: number(0)},
		promql(`sum by (message, result) (rate(haproxy_weighter_spoe_messages_total{`+ofHost+`}[$__rate_interval]))`, "{{message}} {{result}}"))
	b.chart("Connections", "Open from HAProxy's threads.", graph{unit: "none", least: number(0)},
		promql(`haproxy_weighter_spoe_connections{`+ofHost+`}`, "{{instance}}"))
	b.chart("Connections that ended", "By reason. peer_closed, health_check, idle and shutdown are in order.", graph{unit: "ops", stacked: true, least: number(0), wide: true},
		promql(`sum by (reason) (rate(haproxy_weighter_spoe_connections_closed_total{`+ofHost+`}[$__rate_interval]))`, "{{reason}}"))
}

func runtimeSocket(b *board) {
	b.row("Runtime socket")
	b.chart("Requests", "Exchanges with HAProxy's runtime socket, by what was asked.", graph{unit: "reqps", stacked: true, least: number(0)},
		promql(`sum by (command) (rate(haproxy_weighter_runtime_requests_total{`+ofHost+`}[$__rate_interval]))`, "{{command}}"))
	b.chart("Failed requests", "Should be 0.", graph{unit: "reqps", stacked: true, least: number(0)},
		promql(`sum by (instance, socket, result) (rate(haproxy_weighter_runtime_requests_total{`+ofHost+`,result!~"ok|canceled"}[$__rate_interval]))`, "{{result}} at {{instance}} {{socket}}"))
	b.chart("Time of a request (99 %)", "The wait for one of our own connections included.", graph{unit: "s", least: number(0), wide: true},
		promql(`histogram_quantile(0.99, sum by (command, le) (rate(haproxy_weighter_runtime_request_duration_seconds_bucket{`+ofHost+`}[$__rate_interval])))`, "{{command}}"))
}

func daemon(b *board) {
	b.row("Daemon")
	b.chart("CPU", "Cores that the daemon uses.", graph{unit: "none", decimals: 3, least: number(0)},
		promql(`rate(process_cpu_seconds_total{`+ofHost+`}[$__rate_interval]) and on (instance, job) haproxy_weighter_build_info`, "{{instance}}"))
	b.chart("Memory", "Resident memory of the daemon.", graph{unit: "bytes", least: number(0)},
		promql(`process_resident_memory_bytes{`+ofHost+`} and on (instance, job) haproxy_weighter_build_info`, "{{instance}}"))
	b.chart("Configuration", "1: the last reload of the configuration succeeded. 0: it was refused, and the one from before is in force.", graph{unit: "none", steps: true, least: number(0)},
		promql(`haproxy_weighter_config_last_reload_successful{`+ofHost+`}`, "{{instance}}"))
	b.chart("Reports to Graphite", "Lines a second that carbon has read, and that were given up; nothing without report.carbon.", graph{unit: "cps", least: number(0)},
		promql(`rate(haproxy_weighter_carbon_lines_sent_total{`+ofHost+`}[$__rate_interval])`, "sent by {{instance}}"),
		promql(`rate(haproxy_weighter_carbon_lines_dropped_total{`+ofHost+`}[$__rate_interval])`, "dropped by {{instance}}"))
}
