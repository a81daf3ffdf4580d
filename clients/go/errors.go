package recollect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "recollect.example/go/recollectv1"
)

// FieldViolation is one field of a request that is wrong.
type FieldViolation struct {
	// Field is the field's path in the request, as in "messages[0].content".
	Field string
	// Description is the rule that the field breaks.
	Description string
}

// Error is the failure of a call. Branch on Reason, or on Code where there is none: the text is for
// people, and changes.
type Error struct {
	// Code is the gRPC status code.
	Code codes.Code
	// Message is for people.
	Message string
	// Reason says why. Unspecified if no server was reached, or if it gave a reason that this client
	// does not know: then RawReason has it.
	Reason pb.ErrorReason
	// RawReason is the reason as the server sent it, as in "ERROR_REASON_CONVERSATION_NOT_FOUND".
	RawReason string
	// Metadata has the values that belong to the reason: "conversation_id", "turn_count", …
	Metadata map[string]string
	// Violations are the fields that are wrong.
	Violations []FieldViolation
	// RetryAfter is how long the server asks to be left alone; negative if it did not say.
	RetryAfter time.Duration

	cause error
}

// ErrClosed is wrapped by the errors of a client that was closed.
var ErrClosed = errors.New("the client is closed")

// Error returns the text of the failure.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the error that gRPC returned. So errors.Is(err, context.Canceled) says whether the
// caller's own context ended the call.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus returns the status, for status.FromError.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

const domain = "recollect"

// asError returns the error of a call as an *Error; nil and io.EOF stay what they are.
func asError(ctx context.Context, err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	answered := status.Convert(err)
	failed := &Error{Code: answered.Code(), Message: answered.Message(), RetryAfter: -1, cause: err}
	if ctx.Err() != nil {
		failed.cause = ctx.Err()
	}
	for _, detail := range answered.Proto().GetDetails() {
		failed.read(detail.GetTypeUrl(), detail.GetValue())
	}
	if number, ok := pb.ErrorReason_value[failed.RawReason]; ok {
		failed.Reason = pb.ErrorReason(number)
	}
	if failed.Code == codes.Unavailable && failed.RawReason == "" {
		failed.explainConnection()
	}
	return failed
}

// explainConnection says what to do where no server answered.
func (e *Error) explainConnection() {
	switch said := e.Message; {
	case strings.Contains(said, "x509") || strings.Contains(said, "certificate"):
		// A certificate that is refused once is refused again: this code is not repeated.
		e.Code = codes.FailedPrecondition
		e.Message = fmt.Sprintf("The server's certificate is not accepted (%s): name the authority that it comes from with WithCA.", said)
	case strings.Contains(said, "first record does not look like a TLS handshake"):
		e.Code = codes.FailedPrecondition
		e.Message = fmt.Sprintf("The server does not speak TLS at this address (%s): leave WithCA out, or name another port.", said)
	default:
		e.Message = fmt.Sprintf("No connection to the server: %s. If it speaks TLS, name the authority of its certificate with WithCA.", said)
	}
}

// invalid returns the error for a value that the client itself refuses.
func invalid(field, description string) *Error {
	return &Error{
		Code:       codes.InvalidArgument,
		Message:    field + " " + description,
		Reason:     pb.ErrorReason_ERROR_REASON_INVALID_FIELD,
		RawReason:  pb.ErrorReason_ERROR_REASON_INVALID_FIELD.String(),
		Violations: []FieldViolation{{field, description}},
		RetryAfter: -1,
	}
}

// The details of a status are read from their bytes. Their generated types come with grpc-go's own
// dependencies, in another version with each of its releases, and must not be registered twice.

// read takes in one detail of a status. One that is damaged or unknown says nothing.
func (e *Error) read(typeURL string, data []byte) {
	switch typeURL[strings.LastIndex(typeURL, "/")+1:] {
	case "google.rpc.ErrorInfo":
		reason, from, metadata := "", "", map[string]string{}
		each(data, func(field protowire.Number, value []byte, _ uint64) {
			switch field {
			case 1:
				reason = string(value)
			case 2:
				from = string(value)
			case 3:
				pair := texts(value)
				metadata[pair[1]] = pair[2]
			}
		})
		if from == domain {
			e.RawReason, e.Metadata = reason, metadata
		}
	case "google.rpc.BadRequest":
		each(data, func(field protowire.Number, value []byte, _ uint64) {
			if field == 1 {
				violation := texts(value)
				e.Violations = append(e.Violations, FieldViolation{violation[1], violation[2]})
			}
		})
	case "google.rpc.RetryInfo":
		each(data, func(field protowire.Number, value []byte, _ uint64) {
			if field == 1 {
				e.RetryAfter = max(0, duration(value))
			}
		})
	}
}

// each calls see with every field of a message: with its bytes, or with its number.
func each(data []byte, see func(field protowire.Number, value []byte, number uint64)) {
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return
		}
		data = data[n:]
		switch kind {
		case protowire.BytesType:
			value, n := protowire.ConsumeBytes(data)
			if n < 0 {
				return
			}
			see(field, value, 0)
			data = data[n:]
		case protowire.VarintType:
			number, n := protowire.ConsumeVarint(data)
			if n < 0 {
				return
			}
			see(field, nil, number)
			data = data[n:]
		default:
			n := protowire.ConsumeFieldValue(field, kind, data)
			if n < 0 {
				return
			}
			data = data[n:]
		}
	}
}

// texts returns the texts of a message by the numbers of their fields.
func texts(data []byte) map[protowire.Number]string {
	found := map[protowire.Number]string{}
	each(data, func(field protowire.Number, value []byte, _ uint64) { found[field] = string(value) })
	return found
}

// duration reads a google.protobuf.Duration.
func duration(data []byte) time.Duration {
	var seconds, nanos uint64
	each(data, func(field protowire.Number, _ []byte, number uint64) {
		switch field {
		case 1:
			seconds = number
		case 2:
			nanos = number
		}
	})
	return time.Duration(int64(seconds))*time.Second + time.Duration(int64(nanos))
}

// methodOf returns the descriptor of a method by its path, as in "/recollect.v1.RecallService/Search".
func methodOf(path string) protoreflect.MethodDescriptor {
	service, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return findMethod(protoreflect.FullName(service), protoreflect.Name(name))
}

var codeNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
	"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// CodeName returns the name of a status code as the documentation of Recollect writes it: NOT_FOUND.
func CodeName(code codes.Code) string {
	if int(code) < len(codeNames) {
		return codeNames[code]
	}
	return codeNames[codes.Unknown]
}
