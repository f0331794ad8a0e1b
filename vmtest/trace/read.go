package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Causes of the errors of Read and ReadHeader.
var (
	// ErrHeader: a line of the header is malformed.
	ErrHeader = errors.New("bad header")
	// ErrLine: a line after the header is malformed.
	ErrLine = errors.New("bad line")
	// ErrCutOff: the file ends in the middle of a line or of its compression.
	ErrCutOff = errors.New("cut off")
	// ErrTooLarge: a line or the file is larger than the limits.
	ErrTooLarge = errors.New("too large")
)

// The limits of a trace. Read holds a trace in memory, 56 bytes for a packet.
const (
	MaxLine    = 1 << 20 // bytes of one line
	MaxHeader  = 4096    // lines of the header
	MaxPackets = 4 << 20 // lines of the body
	MaxFlows   = 1 << 20 // flows are numbered from 0
)

// Trace is a trace in memory. It is not changed by anything in this package.
type Trace struct {
	Header
	Packets []Packet // in the order of the file
}

// ReadFile reads the trace at path, compressed or not.
func ReadFile(path string) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(path, f)
}

// ReadHeaderFile reads the header of the trace at path and nothing behind it.
func ReadHeaderFile(path string) (*Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadHeader(path, f)
}

// Read reads a trace, which gzip may have compressed: its first bytes tell. The
// name, a path, stands in errors and gives the trace its name. Errors wrap
// ErrHeader, ErrLine, ErrCutOff or ErrTooLarge, or are those of r or of gzip,
// and name the line and what would be right.
func Read(name string, r io.Reader) (*Trace, error) {
	s, err := newScanner(name, r)
	if err != nil {
		return nil, err
	}
	t := &Trace{Header: Header{Name: baseName(name)}}
	if err := s.header(&t.Header); err != nil {
		return nil, s.wrap(err)
	}
	if t.Packets, err = s.body(); err != nil {
		return nil, s.wrap(err)
	}
	return t, nil
}

// ReadHeader reads the header as Read does and stops before the first line that
// does not begin with #, which it does not look at: a model that is given the
// header cannot know the packets.
func ReadHeader(name string, r io.Reader) (*Header, error) {
	s, err := newScanner(name, r)
	if err != nil {
		return nil, err
	}
	h := &Header{Name: baseName(name)}
	if err := s.header(h); err != nil {
		return nil, s.wrap(err)
	}
	return h, nil
}

// baseName is the file's name without its folder and the endings of a trace.
func baseName(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".tsv")
}

// scanner reads lines and counts them.
type scanner struct {
	name string
	r    *bufio.Reader
	line int // number of the last line read
}

func newScanner(name string, r io.Reader) (*scanner, error) {
	b := bufio.NewReaderSize(r, MaxLine)
	magic, _ := b.Peek(2) // a shorter file has its fault at the first line
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return &scanner{name: name, r: b}, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("%s: gzip: %w", name, cutOff(err))
	}
	return &scanner{name: name, r: bufio.NewReaderSize(z, MaxLine)}, nil
}

func (s *scanner) wrap(err error) error {
	return fmt.Errorf("%s:%d: %w", s.name, s.line, err)
}

// next returns the next line without its end, valid until the next call; io.EOF
// after the last.
func (s *scanner) next() ([]byte, error) {
	b, err := s.r.ReadSlice('\n')
	if len(b) > 0 || err != io.EOF {
		s.line++
	}
	switch {
	case err == nil:
		return b[:len(b)-1], nil
	case err == bufio.ErrBufferFull:
		return nil, fmt.Errorf("%w: a line has at most %d bytes", ErrTooLarge, MaxLine)
	case err == io.EOF && len(b) > 0:
		return nil, fmt.Errorf("%w: the last line has no end", ErrCutOff)
	}
	return nil, cutOff(err)
}

// cutOff gives the end of a file that comes too early the cause of this package.
func cutOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the compressed file is not whole", ErrCutOff)
	}
	return err
}

// header reads the lines that begin with #.
func (s *scanner) header(h *Header) error {
	for {
		c, err := s.r.Peek(1)
		if err == nil && c[0] != '#' {
			break
		}
		line, err := s.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if s.line > MaxHeader {
			return fmt.Errorf("%w: a header has at most %d lines", ErrTooLarge, MaxHeader)
		}
		if err := h.add(line); err != nil {
			return err
		}
	}
	if len(h.Lines) == 0 {
		s.line = 1
		return fmt.Errorf("%w: a trace begins with lines # KEY<TAB>VALUE", ErrHeader)
	}
	return nil
}

// body reads the names of the columns and the packets.
func (s *scanner) body() ([]Packet, error) {
	line, err := s.next()
	if err == io.EOF {
		return nil, fmt.Errorf("%w: the file ends with its header; want the names of the columns and packets", ErrCutOff)
	}
	if err != nil {
		return nil, err
	}
	cols, err := parseColumns(line)
	if err != nil {
		return nil, err
	}
	return s.packets(cols)
}

func (s *scanner) packets(cols columns) ([]Packet, error) {
	var packets []Packet
	for {
		line, err := s.next()
		if err == io.EOF {
			return packets, nil
		}
		if err != nil {
			return nil, err
		}
		if len(packets) == MaxPackets {
			return nil, fmt.Errorf("%w: a trace has at most %d packets", ErrTooLarge, MaxPackets)
		}
		p, err := cols.parse(line)
		if err != nil {
			return nil, err
		}
		p.Line = int32(s.line)
		packets = append(packets, p)
	}
}
