// Package access says who may do what at the HTTP API: API keys, bearer tokens
// of an OpenID Connect issuer, and the rules of roles and tenants.
//
// It owns the format of keys, what is stored of them, the check of a request's
// credential ([Authenticator]) and the decision over a tenant's things
// ([Principal.May]). It refuses to store keys (a [KeyStore] does), to open an
// unauthenticated mode (the caller chooses [Local] where that is right), and to
// guess: a principal without tenant or role may do nothing. What encrypts stored
// secrets is a [Sealer]; package seal, below this one, makes them.
//
// Everything here may be used concurrently. Nothing starts a goroutine.
package access
