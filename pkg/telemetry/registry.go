package telemetry

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry returns a metrics registry with the Go and process collectors and
// myosin_build_info for a process such as "scheduler".
func NewRegistry(process string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	version, revision, goVersion := Build()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "myosin_build_info",
		Help:        "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"process": process, "version": version, "revision": revision, "go": goVersion},
	})
	info.Set(1)
	// A new registry holds nothing that these could clash with.
	reg.MustRegister(info, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Build returns the module version, the VCS revision (with "-dirty" if files
// were changed) and the Go version of this binary; "unknown" where the build
// did not record it.
func Build() (version, revision, goVersion string) {
	version, revision, goVersion = "unknown", "unknown", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, revision, goVersion
	}
	goVersion = info.GoVersion
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	return version, revision + dirty, goVersion
}
