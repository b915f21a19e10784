package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	// maxBody is the longest body that is read. A page of the service has at most 10 MiB of data, which base64 and escaped keys may make 30;
	// emulators know no such bound.
	maxBody = 256 << 20
	// firstRoom is the most that is made ready for a body because of what its Content-Length promises.
	firstRoom = 2 << 20
	// keptBody is the largest buffer that is used again.
	keptBody = 16 << 20
)

var errTooLong = errors.New("the answer is longer than any of the service")

// bodies recycles the memory that answers are read into. What is made of them is copied out.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

func putBack(body *[]byte) {
	if cap(*body) <= keptBody {
		bodies.Put(body)
	}
}

// readBody reads an answer. The caller puts the buffer back. Errors are as the SDK makes them, but for answers that are too long.
func readBody(resp *smithyhttp.Response) (*[]byte, error) {
	body, _ := bodies.Get().(*[]byte)
	b, err := appendBody((*body)[:0], resp.Body, resp.ContentLength)
	*body = b
	if err == nil {
		return body, nil
	}
	putBack(body)
	if errors.Is(err, errTooLong) {
		_ = resp.Body.Close() // or the SDK would read it to its end
		resp.Body = http.NoBody
	}
	return nil, &smithy.DeserializationError{Err: err}
}

// maxParts is the most members and elements that the SDK is given to decode: for each member in a row that it does not know, or that is null, its
// decoder (seen in smithy-go 1.28.9) goes one call deeper, and an empty record of three bytes is one of 64. A page has 50,000; commas in keys
// count too.
const maxParts = 1 << 19

// bearable finds a body that the SDK's decoder would need many times its size for.
func bearable(body []byte) error {
	if n := bytes.Count(body, []byte{','}); n > maxParts {
		return fmt.Errorf("%w: %d members", errTooLong, n)
	}
	return nil
}

func appendBody(b []byte, r io.Reader, length int64) ([]byte, error) {
	if length > maxBody {
		return b, fmt.Errorf("%w: Content-Length %d", errTooLong, length)
	}
	for {
		if len(b) == cap(b) {
			room := max(4<<10, 2*cap(b))
			if promised := int(length) + 1; promised > len(b) { // the byte more is for the end to be seen without growing
				room = min(promised, max(room, firstRoom))
			}
			b = append(make([]byte, 0, room), b...)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > maxBody:
			return b, fmt.Errorf("%w: more than %d bytes", errTooLong, maxBody)
		case err == io.EOF:
			return b, nil
		case err != nil:
			return b, err
		}
	}
}
