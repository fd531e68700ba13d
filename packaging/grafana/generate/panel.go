package main

import "fmt"

// board is a dashboard in the making: panels are put from left to right and
// from top to bottom.
type board struct {
	dashboard
	source *source
	x, y   int
	high   int // of the line of panels in the making
	nextID int
}

const wide = 24 // columns of Grafana's grid

func newBoard(kind, uid, title, description string) *board {
	b := &board{source: &source{Type: kind, UID: "${datasource}"}, nextID: 1}
	b.dashboard = dashboard{
		Annotations: annotations{List: []any{builtIn}}, Description: description, Editable: true, GraphTooltip: 1,
		Links: []any{}, Refresh: "1m", SchemaVersion: schemaVersion, Tags: []string{"haproxy", "haproxy-weighter"},
		Time: timeRange{From: "now-6h", To: "now"}, Timezone: "browser", Title: title, UID: uid, Version: 1,
	}
	b.Templating.List = []*variable{{
		Name: "datasource", Label: "Data source", Type: "datasource", Query: kind, Refresh: 1,
		Current: map[string]any{"selected": false, "text": "default", "value": "default"}, Options: []any{},
	}}
	return b
}

// choice adds a variable whose values a query gives; all stands for every value.
func (b *board) choice(name, label, description, definition, regex, all string, query any) {
	b.Templating.List = append(b.Templating.List, &variable{
		Name: name, Label: label, Description: description, Type: "query", Datasource: b.source, Definition: definition, Query: query,
		Regex: regex, Refresh: 2, Sort: 7, IncludeAll: true, AllValue: all, Multi: true,
		Current: map[string]any{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}}, Options: []any{},
	})
}

// add puts a panel; its width and height are set.
func (b *board) add(p *panel) *panel {
	if b.x+p.GridPos.W > wide {
		b.newLine()
	}
	p.ID = b.nextID
	b.nextID++
	p.GridPos.X, p.GridPos.Y = b.x, b.y
	b.x += p.GridPos.W
	b.high = max(b.high, p.GridPos.H)
	b.Panels = append(b.Panels, p)
	return p
}

func (b *board) newLine() {
	b.y += b.high
	b.x, b.high = 0, 0
}

// row begins a row with a title.
func (b *board) row(title string) {
	b.newLine()
	collapsed := false
	b.add(&panel{Type: "row", Title: title, Collapsed: &collapsed, Panels: &[]*panel{}, GridPos: gridPos{H: 1, W: wide}})
	b.newLine()
}

// graph is what a chart shows beside its queries; the zero value is plain lines
// of numbers.
type graph struct {
	unit     string   // Grafana's name of it; empty means a short number
	decimals int      // 0: Grafana decides
	least    *float64 // lower end of the axis
	steps    bool     // values that stay until they change, such as weights
	stacked  bool
	wide     bool     // over the whole width
	limit    string   // legend of the query that is a limit: a dashed line
	red      *float64 // a value from which on it is bad
	repeat   string   // a variable: one chart for each of its values
	legend   []string // calculations in the legend; nil means last and highest
}

// chart adds a time series panel.
func (b *board) chart(title, description string, g graph, queries ...target) {
	width := wide / 2
	if g.wide {
		width = wide
	}
	custom := map[string]any{
		"axisPlacement": "auto", "drawStyle": "line", "fillOpacity": 0, "lineInterpolation": "linear", "lineWidth": 1,
		"pointSize": 4, "scaleDistribution": map[string]string{"type": "linear"}, "showPoints": "auto", "spanNulls": false,
		"stacking": map[string]string{"group": "A", "mode": "none"}, "thresholdsStyle": map[string]string{"mode": "off"},
	}
	if g.steps {
		custom["lineInterpolation"] = "stepAfter"
	}
	if g.stacked {
		custom["fillOpacity"] = 30
		custom["stacking"] = map[string]string{"group": "A", "mode": "normal"}
	}
	fields := b.fields(g.unit, g.decimals, "palette-classic")
	fields.Defaults.Custom, fields.Defaults.Min = custom, g.least
	if g.red != nil {
		fields.Defaults.Thresholds.Steps = append(fields.Defaults.Thresholds.Steps, threshold{"red", g.red})
		custom["thresholdsStyle"] = map[string]string{"mode": "line"}
	}
	if g.limit != "" {
		fields.Overrides = append(fields.Overrides, fieldOverride{
			Matcher: map[string]string{"id": "byRegexp", "options": "/^" + g.limit + "/"},
			Properties: []property{
				{"custom.lineStyle", map[string]any{"dash": []int{8, 8}, "fill": "dash"}},
				{"color", map[string]string{"fixedColor": "red", "mode": "fixed"}},
			},
		})
	}
	if g.legend == nil {
		g.legend = []string{"lastNotNull", "max"}
	}
	p := b.add(&panel{
		Type: "timeseries", Title: title, Description: description, Datasource: b.source, GridPos: gridPos{H: 9, W: width},
		FieldConfig: fields, Targets: b.numbered(queries),
		Options: map[string]any{
			"legend":  map[string]any{"calcs": g.legend, "displayMode": "table", "placement": "bottom", "showLegend": true, "sortBy": "Last *", "sortDesc": true},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		},
	})
	if g.repeat != "" {
		p.Repeat, p.RepeatDirection, p.MaxPerRow = g.repeat, "h", 2
		b.newLine() // the copies take the whole width
	}
}

// stat adds one number. From the value red on it is red; nil: it has no colour.
func (b *board) stat(title, description, unit string, decimals int, red *float64, query target) {
	fields := b.fields(unit, decimals, "thresholds")
	if red != nil {
		fields.Defaults.Thresholds.Steps = append(fields.Defaults.Thresholds.Steps, threshold{"red", red})
	} else {
		fields.Defaults.Thresholds.Steps[0].Color = "text"
	}
	fields.Defaults.NoValue = "unknown"
	b.add(&panel{
		Type: "stat", Title: title, Description: description, Datasource: b.source, GridPos: gridPos{H: 4, W: wide / 8},
		FieldConfig: fields, Targets: b.numbered([]target{query}),
		Options: map[string]any{
			"colorMode": "value", "percentChangeColorMode": "standard", "showPercentChange": false, "wideLayout": true, "graphMode": "area", "justifyMode": "auto", "orientation": "auto", "textMode": "value",
			"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		},
	})
}

// text adds words, in Markdown.
func (b *board) text(title, markdown string, height int) {
	b.add(&panel{
		Type: "text", Title: title, GridPos: gridPos{H: height, W: wide},
		Options: map[string]any{"mode": "markdown", "content": markdown},
	})
}

func (b *board) fields(unit string, decimals int, color string) *fieldConfig {
	if unit == "" {
		unit = "short"
	}
	f := &fieldConfig{Overrides: []fieldOverride{}}
	f.Defaults = fieldDefaults{
		Color: map[string]string{"mode": color}, Mappings: []any{}, Unit: unit,
		Thresholds: thresholds{Mode: "absolute", Steps: []threshold{{Color: "green"}}},
	}
	if decimals > 0 {
		f.Defaults.Decimals = &decimals
	}
	return f
}

// numbered gives the queries of a panel their letters and their source.
func (b *board) numbered(queries []target) []target {
	for i := range queries {
		queries[i].RefID, queries[i].Datasource = fmt.Sprintf("%c", 'A'+i), b.source
	}
	return queries
}

func number(v float64) *float64 { return &v }
