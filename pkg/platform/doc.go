// Package platform opens everything a process needs of AWS, by the prefix of an
// installation: SDK configuration, clock, trigger table, queues and registry. It
// is the one place where the resources' names are made, and creates them for the
// embedded engine and for tests; elsewhere Terraform does.
//
// It starts no goroutines: whoever opens a platform runs what needs running
// (Platform.Services.Run). Everything here may be used concurrently.
package platform
