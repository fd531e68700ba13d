package main

import "encoding/json"

// The types below are the part of Grafana's dashboard schema that is used here.

// schemaVersion is that of Grafana 10.4; later ones read and migrate it.
const schemaVersion = 39

type dashboard struct {
	Annotations   annotations `json:"annotations"`
	Description   string      `json:"description"`
	Editable      bool        `json:"editable"`
	GraphTooltip  int         `json:"graphTooltip"` // 1: one crosshair for all panels
	ID            *int        `json:"id"`           // null: whoever imports it gives one
	Links         []any       `json:"links"`
	Panels        []*panel    `json:"panels"`
	Refresh       string      `json:"refresh"`
	SchemaVersion int         `json:"schemaVersion"`
	Tags          []string    `json:"tags"`
	Templating    templating  `json:"templating"`
	Time          timeRange   `json:"time"`
	Timepicker    struct{}    `json:"timepicker"`
	Timezone      string      `json:"timezone"`
	Title         string      `json:"title"`
	UID           string      `json:"uid"`
	Version       int         `json:"version"`
}

type annotations struct {
	List []any `json:"list"`
}

type templating struct {
	List []*variable `json:"list"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// source is a data source by reference.
type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type variable struct {
	Name        string  `json:"name"`
	Label       string  `json:"label"`
	Description string  `json:"description,omitempty"`
	Type        string  `json:"type"` // "datasource", "query", "textbox"
	Datasource  *source `json:"datasource,omitempty"`
	Definition  string  `json:"definition,omitempty"`
	Query       any     `json:"query"`
	Regex       string  `json:"regex,omitempty"`
	Refresh     int     `json:"refresh,omitempty"` // 1: on load, 2: when the time range changes
	Sort        int     `json:"sort,omitempty"`    // 7: natural
	IncludeAll  bool    `json:"includeAll"`
	AllValue    string  `json:"allValue,omitempty"`
	Multi       bool    `json:"multi"`
	Current     any     `json:"current"`
	Options     []any   `json:"options"`
	Hide        int     `json:"hide"`
	SkipURLSync bool    `json:"skipUrlSync"`
}

type panel struct {
	ID              int          `json:"id"`
	Type            string       `json:"type"`
	Title           string       `json:"title"`
	Description     string       `json:"description,omitempty"`
	Datasource      *source      `json:"datasource,omitempty"`
	GridPos         gridPos      `json:"gridPos"`
	FieldConfig     *fieldConfig `json:"fieldConfig,omitempty"`
	Options         any          `json:"options,omitempty"`
	Targets         []target     `json:"targets,omitempty"`
	Repeat          string       `json:"repeat,omitempty"`
	RepeatDirection string       `json:"repeatDirection,omitempty"`
	MaxPerRow       int          `json:"maxPerRow,omitempty"`
	Collapsed       *bool        `json:"collapsed,omitempty"` // rows only
	Panels          *[]*panel    `json:"panels,omitempty"`    // rows only
}

type gridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type fieldConfig struct {
	Defaults  fieldDefaults   `json:"defaults"`
	Overrides []fieldOverride `json:"overrides"`
}

type fieldDefaults struct {
	Color      map[string]string `json:"color"`
	Custom     map[string]any    `json:"custom,omitempty"`
	Decimals   *int              `json:"decimals,omitempty"`
	Mappings   []any             `json:"mappings"`
	Min        *float64          `json:"min,omitempty"`
	Max        *float64          `json:"max,omitempty"`
	NoValue    string            `json:"noValue,omitempty"`
	Thresholds thresholds        `json:"thresholds"`
	Unit       string            `json:"unit"`
}

type fieldOverride struct {
	Matcher    map[string]string `json:"matcher"`
	Properties []property        `json:"properties"`
}

type property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

type thresholds struct {
	Mode  string      `json:"mode"`
	Steps []threshold `json:"steps"`
}

type threshold struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"` // null: from the beginning
}

// target is one query, of Prometheus or of Graphite.
type target struct {
	Datasource   *source `json:"datasource"`
	RefID        string  `json:"refId"`
	Expr         string  `json:"expr,omitempty"`
	LegendFormat string  `json:"legendFormat,omitempty"`
	Instant      *bool   `json:"instant,omitempty"`
	Range        *bool   `json:"range,omitempty"`
	EditorMode   string  `json:"editorMode,omitempty"`
	Target       string  `json:"target,omitempty"`     // Graphite's expression
	TextEditor   *bool   `json:"textEditor,omitempty"` // of Graphite's
}

// builtIn is the list of annotations that every dashboard has.
var builtIn = json.RawMessage(`{
	"builtIn": 1,
	"datasource": {"type": "grafana", "uid": "-- Grafana --"},
	"enable": true,
	"hide": true,
	"iconColor": "rgba(0, 211, 255, 1)",
	"name": "Annotations & Alerts",
	"type": "dashboard"
}`)
