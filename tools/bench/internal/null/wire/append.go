package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// AppendString appends s as a JSON string.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		if ch := s[i]; ch < ' ' || ch == '"' || ch == '\\' || ch >= 0x7F {
			quoted, err := json.Marshal(string(s))
			if err != nil { // cannot happen for a string
				quoted = []byte(`""`)
			}
			return append(dst[:len(dst)-1], quoted...)
		}
	}
	dst = append(dst, s...)
	return append(dst, '"')
}

// AppendUnits appends a count of capacity units.
func AppendUnits(dst []byte, units float64) []byte {
	return strconv.AppendFloat(dst, units, 'f', -1, 64)
}

// Error is an error answer. Type is what clients know it by.
type Error struct {
	Status  int // of HTTP
	Type    string
	Message string
	// Extra are further members of the answer, each with a leading comma.
	Extra []byte
}

// Error implements error.
func (e *Error) Error() string { return e.Type + ": " + e.Message }

// Append appends the body of the answer, its type in a service's namespace.
func (e *Error) Append(dst []byte, namespace string) []byte {
	dst = append(dst, `{"__type":`...)
	dst = AppendString(dst, namespace+"#"+e.Type)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, e.Message)
	dst = append(dst, e.Extra...)
	return append(dst, '}')
}

// Fault returns the answer to a wrong request.
func Fault(kind, format string, args ...any) *Error {
	return &Error{Status: 400, Type: kind, Message: fmt.Sprintf(format, args...)}
}

// Malformed is the answer to a text that is not JSON of the expected shape.
func Malformed() *Error {
	return Fault("SerializationException", "the request is not what was expected")
}
