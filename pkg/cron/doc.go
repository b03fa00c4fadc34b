// Package cron owns fire times: it reads five-field cron expressions, evaluates
// them on the wall clock of a time zone and maps wall times to instants under an
// explicit policy for the hours that clocks skip and repeat.
//
// # Expressions
//
// Minute (0-59), hour (0-23), day of month (1-31), month (1-12 or jan-dec), day
// of week (0-7 or sun-sat; 0 and 7 are Sunday). Each is * or a list of values,
// ranges a-b and steps */n, a-b/n, a/n (from a to the field's end). Day of month
// knows L and L-n (n days before the last); day of week knows 5#3 (the third
// Friday), 5#L and 5L (the last). ? is * in the day fields. Day of month and day
// of week are OR-ed when both are set, and "set" is anything but * (and ?). A
// range runs upwards (fri-sun is friday to sunday). @yearly, @annually,
// @monthly, @weekly, @daily, @midnight and @hourly stand for their five fields.
// An expression that can never fire is refused.
//
// # Clocks that change
//
// An expression whose hour field has a * or a step, or all 24 hours, follows
// real time: it fires at each instant at which the wall clock matches, so hourly
// is 25 runs in autumn and 23 in spring. All others are fixed-hour, and there
// [Policy] decides: wall times inside a gap run together once at the first
// instant after it, or not at all; wall times that come twice run at the first,
// or at both.
//
// # Cost
//
// Nothing walks occurrences. Next and Latest step over months without a matching
// day and over the zone's transitions, at most those of 40 years (29 February on
// one weekday, across 2100) and typically one of each. Count steps over the
// months and transitions of its range: about 15 steps a year, whatever the
// density of the schedule.
//
// # Zones
//
// [LoadZone] uses the machine's zone database. This package does not embed one:
// binaries that evaluate schedules (services/api, services/runner and
// services/standalone, tools/myosin) import time/tzdata in their main package, as
// their images carry no /usr/share/zoneinfo.
//
// # Why the fields are read here
//
// Every maintained library fails a requirement: robfig/cron v3.0.1 has no L and
// no #; hashicorp/cronexpr v1.1.3 keeps its fields to itself, takes a sixth and
// seventh field, and Next writes to the expression; adhocore/gronx v1.20.4 has
// no parsed form to take the fields from and lets 30 February pass; reugn/go-quartz v0.15.2 does
// not OR the day fields; netresearch/go-cron v0.9.1 comes closest but takes
// "1,,2" and "*-5", lets 1/2 of the week include Sunday, and does not know 5L.
// None names the field at fault together with its limit.
//
// All types are values or immutable after construction and safe for concurrent
// use. The package reads no clock and holds no state.
package cron
