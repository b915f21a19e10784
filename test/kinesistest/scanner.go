package kinesistest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

var errJSON = errors.New("malformed JSON")

// scanner reads JSON in place. It serves the operations that are called often; the others go through
// encoding/json.
type scanner struct {
	b []byte
	i int
}

// peek returns the next byte that is not white space, 0 at the end.
func (in *scanner) peek() byte {
	for in.i < len(in.b) {
		switch c := in.b[in.i]; c {
		case ' ', '\t', '\n', '\r':
			in.i++
		default:
			return c
		}
	}
	return 0
}

func (in *scanner) expect(c byte) error {
	if in.peek() != c {
		return errJSON
	}
	in.i++
	return nil
}

// object reads an object and calls field with each key, to read the value.
func (in *scanner) object(field func(key []byte) error) error {
	if err := in.expect('{'); err != nil {
		return err
	}
	if in.peek() == '}' {
		in.i++
		return nil
	}
	for {
		key, err := in.str()
		if err != nil {
			return err
		}
		if err := in.expect(':'); err != nil {
			return err
		}
		if err := field(key); err != nil {
			return err
		}
		if done, err := in.more('}'); done || err != nil {
			return err
		}
	}
}

// array reads an array and calls element to read each element.
func (in *scanner) array(element func() error) error {
	if err := in.expect('['); err != nil {
		return err
	}
	if in.peek() == ']' {
		in.i++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if done, err := in.more(']'); done || err != nil {
			return err
		}
	}
}

// more reads the comma before another element or the end of the list.
func (in *scanner) more(end byte) (done bool, err error) {
	switch in.peek() {
	case ',':
		in.i++
		return false, nil
	case end:
		in.i++
		return true, nil
	default:
		return false, errJSON
	}
}

// str reads a string and returns the source text between the quotes.
func (in *scanner) str() ([]byte, error) {
	if err := in.expect('"'); err != nil {
		return nil, err
	}
	start := in.i
	for {
		end := bytes.IndexByte(in.b[in.i:], '"')
		if end < 0 {
			return nil, errJSON
		}
		in.i += end + 1
		text := in.b[start : in.i-1]
		slashes := 0
		for slashes < len(text) && text[len(text)-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 { // an odd number escapes the quote
			return text, nil
		}
	}
}

// null consumes null if it is next.
func (in *scanner) null() bool {
	in.peek()
	if !bytes.HasPrefix(in.b[in.i:], []byte("null")) {
		return false
	}
	in.i += len("null")
	return true
}

// textInto reads a string or null; escapes are resolved.
func (in *scanner) textInto(dst *[]byte) error {
	if in.null() {
		return nil
	}
	source, err := in.str()
	if err != nil {
		return err
	}
	*dst, err = unescape(source)
	return err
}

// unescape returns the text a string's source stands for; the source itself if it has no escapes.
func unescape(source []byte) ([]byte, error) {
	if bytes.IndexByte(source, '\\') < 0 {
		return source, nil
	}
	var text string
	quoted := append(append([]byte{'"'}, source...), '"')
	if err := json.Unmarshal(quoted, &text); err != nil {
		return nil, errJSON
	}
	return []byte(text), nil
}

// validSource reports whether the source of a string may be copied into an answer.
func validSource(source []byte) bool {
	for _, c := range source {
		if c < ' ' {
			return false
		}
	}
	return utf8.Valid(source)
}

// literal reads a number, true or false.
func (in *scanner) literal() string {
	in.peek()
	start := in.i
	for in.i < len(in.b) {
		switch in.b[in.i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return string(in.b[start:in.i])
		}
		in.i++
	}
	return string(in.b[start:])
}

// intInto reads a whole number or null.
func (in *scanner) intInto(dst **int64) error {
	if in.null() {
		return nil
	}
	n, err := strconv.ParseInt(in.literal(), 10, 64)
	if err != nil {
		return errJSON
	}
	*dst = &n
	return nil
}

// boolInto reads true, false or null.
func (in *scanner) boolInto(dst *bool) error {
	switch in.literal() {
	case "true":
		*dst = true
	case "false", "null":
		*dst = false
	default:
		return errJSON
	}
	return nil
}

// skip reads any value and forgets it.
func (in *scanner) skip() error { return in.skipDepth(64) }

func (in *scanner) skipDepth(depth int) error {
	if depth == 0 {
		return errJSON
	}
	switch in.peek() {
	case '"':
		_, err := in.str()
		return err
	case '{':
		return in.object(func([]byte) error { return in.skipDepth(depth - 1) })
	case '[':
		return in.array(func() error { return in.skipDepth(depth - 1) })
	case 0:
		return errJSON
	default:
		if in.literal() == "" {
			return errJSON
		}
		return nil
	}
}
