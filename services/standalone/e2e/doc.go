// Package e2e tests Myosin as it is run: built binaries as processes of their
// own over one AWS endpoint, killed, frozen and rolled under load, and used by a
// foreign client. Every trigger is accounted for.
//
// It owns no code that ships. The tests run in make e2e alone, since they take
// minutes and the machine; elsewhere they say so and are skipped.
package e2e
