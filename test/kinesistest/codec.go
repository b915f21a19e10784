package kinesistest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// codec is one of the two wire formats of the API. Requests and answers are the same structs in
// both; the CBOR package reads the json tags.
type codec struct {
	contentType string
	form        form
	encode      func(any) ([]byte, error)
	decode      func([]byte, any) error
}

var (
	jsonCodec = &codec{contentType: "application/x-amz-json-1.1", form: formJSON, encode: json.Marshal, decode: decodeJSON}
	cborCodec = &codec{contentType: "application/x-amz-cbor-1.1", form: formCBOR, encode: cbor.Marshal, decode: decodeCBOR}
)

// codecFor picks the format by content type; what is not CBOR is taken for JSON.
func codecFor(contentType string) *codec {
	mediaType, _, _ := strings.Cut(contentType, ";")
	if strings.EqualFold(strings.TrimSpace(mediaType), cborCodec.contentType) {
		return cborCodec
	}
	return jsonCodec
}

func decodeJSON(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	return json.Unmarshal(body, into)
}

func decodeCBOR(body []byte, into any) error {
	if len(body) == 0 {
		return nil
	}
	return cbor.Unmarshal(body, into)
}

// decodeCBORNumber reads a CBOR number; float reports that it was floating point.
func decodeCBORNumber(b []byte) (n float64, float bool, err error) {
	var v any
	if err := cbor.Unmarshal(b, &v); err != nil {
		return 0, false, err
	}
	switch v := v.(type) {
	case uint64:
		return float64(v), false, nil
	case int64:
		return float64(v), false, nil
	case float64:
		return v, true, nil
	default:
		return 0, false, errors.New("not a number")
	}
}
