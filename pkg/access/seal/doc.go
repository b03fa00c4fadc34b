// Package seal encrypts the secrets that are stored: with keys the process was
// given ([Local]) or with those of AWS KMS (package kmskeys).
//
// It owns the choice between them ([Settings]) and the local keys. It refuses to
// store anything, and to seal without a key: a process that was given none has
// no sealer. Sealers may be used concurrently and start no goroutines.
package seal
