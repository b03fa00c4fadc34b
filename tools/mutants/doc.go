// Package mutants tests the tests: each committed one-line mutation of the code
// that ships must make the suite named beside it fail. A mutation that no longer
// fits its file fails too, so the list cannot rot.
package mutants
