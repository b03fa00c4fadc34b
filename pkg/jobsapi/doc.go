// Package jobsapi owns the JSON of the managed layer's HTTP API: its bodies as Go
// types ([CreateJob], [Job], [Run] and so on), their strict decoding ([Decode]),
// the conversions to and from package job, and a typed client ([Client]).
//
// It refuses unknown fields, by name; null; and one field in two spellings. The
// camelCase spellings of published examples (runAt, retryPolicy) are taken on
// input only, where the API defines the name: never within a payload, headers or
// labels. Durations are strings such as "30s", times RFC 3339; answers are in
// UTC. A payload is kept byte for byte.
//
// What a target may be, who may see a payload, and what a change means for runs
// is for others to say. The types are plain values; a [Client] may be used by
// many goroutines at once and starts none.
package jobsapi
