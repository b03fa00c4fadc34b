package cron

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"
)

// zoneNames are the names of the tz database that Go 1.26 carries, one a line:
// for advice and tests only; what loads is the machine's business.
//
//go:embed zones.txt
var zoneNames string

// LoadZone returns the zone of a tz database name such as Asia/Ho_Chi_Minh or
// UTC. The empty name and Local are refused: a schedule must not depend on the
// machine. An error lists names that may be meant.
func LoadZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("cron: time zone %q is not allowed; give a name such as UTC or Europe/Berlin", name)
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		return zone, nil
	}
	advice := "names look like Europe/Berlin, see https://en.wikipedia.org/wiki/List_of_tz_database_time_zones"
	if near := similarZones(name); len(near) > 0 {
		advice = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return nil, fmt.Errorf("cron: unknown time zone %q; %s", clip(name), advice)
}

func clip(s string) string { return s[:min(len(s), 64)] }

// similarZones returns at most three names that differ from name in case,
// separator, region or two letters.
func similarZones(name string) []string {
	if len(name) > 64 {
		return nil
	}
	flat := func(s string) string { return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(s)) }
	want := flat(name)
	wantCity := want[strings.LastIndex(want, "/")+1:]
	ranked := make([][]string, 4)
	for have := range strings.Lines(zoneNames) {
		have = strings.TrimSpace(have)
		is := flat(have)
		city := is[strings.LastIndex(is, "/")+1:]
		rank := distance(is, want)
		if city == wantCity {
			rank = min(rank, 1)
		} else if d := distance(city, wantCity); len(wantCity) > 4 && d <= 2 {
			rank = min(rank, d+1)
		}
		if rank < len(ranked) && len(want) > 3*max(rank-1, 0) {
			ranked[rank] = append(ranked[rank], have)
		}
	}
	near := slices.Concat(ranked...)
	return near[:min(len(near), 3)]
}

// distance is the number of bytes to change, add or remove.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
