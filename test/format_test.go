package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What stands between a node and its service reads requests in the format that they come in, and answers in it.

// The formats, by their content types.
const (
	inJSON = "application/x-amz-json-1.1"
	inCBOR = "application/x-amz-cbor-1.1"
)

// format is what a body is written in: inJSON or inCBOR.
type format string

// formatOf is the format of a body by what comes with it.
func formatOf(h http.Header) format {
	if strings.HasPrefix(h.Get("Content-Type"), inCBOR) {
		return inCBOR
	}
	return inJSON
}

// plainCBOR takes maps for what they are in JSON.
var plainCBOR = func() cbor.DecMode {
	mode, err := cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any]()}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// decode reads a body; both formats know the members by their json tags.
func (f format) decode(in io.Reader, into any) error {
	body, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if f == inCBOR {
		err = plainCBOR.Unmarshal(body, into)
	} else {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return fmt.Errorf("a body that should be %s: %w", f, err)
	}
	return nil
}

func (f format) encode(of any) ([]byte, error) {
	if f == inCBOR {
		return cbor.Marshal(of)
	}
	return json.Marshal(of)
}

// answer is a service's answer.
func (f format) answer(status int, of any) (*http.Response, error) {
	text, err := f.encode(of)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": []string{string(f)}},
		ContentLength: int64(len(text)), Body: io.NopCloser(bytes.NewReader(text)),
	}, nil
}

// peek reads an answer's body and leaves it for the next to read.
func peek(res *http.Response, into any) error {
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	res.Body = body{bytes.NewReader(text), res.Body}
	return formatOf(res.Header).decode(bytes.NewReader(text), into)
}

// What is written in a format is read from it, bytes too.
func TestBodiesAreReadInTheirFormat(t *testing.T) {
	t.Parallel()
	in := putRequest{StreamName: "s", Records: []putEntry{{PartitionKey: "k", Data: []byte{0, 0xff, '"'}}, {PartitionKey: "ключ", ExplicitHashKey: "1"}}}
	for _, f := range []format{inJSON, inCBOR} {
		res, err := f.answer(http.StatusOK, in)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		require.Equal(t, f, formatOf(res.Header))
		var typed putRequest
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, f.decode(bytes.NewReader(text), &typed))
		assert.Equal(t, in, typed)
		var loose map[string]any
		require.NoError(t, f.decode(bytes.NewReader(text), &loose))
		entries, _ := loose["Records"].([]any)
		require.Len(t, entries, 2, f)
		assert.IsType(t, map[string]any{}, entries[0], f)
		other := map[format]format{inJSON: inCBOR, inCBOR: inJSON}[f]
		assert.ErrorContains(t, other.decode(bytes.NewReader(text), &loose), string(other))
	}
}
