package vmtest_test

import (
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
)

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]vmtest.Bytes{"1024": 1024, "64k": 65536, "1M": 1 << 20, "2G": 2 << 30, "1.5k": 1536, "0": 0} {
		if got, err := vmtest.ParseBytes(in); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "k", "64kb", "-1", "1e3", "64 k", "9999999999G"} {
		if got, err := vmtest.ParseBytes(in); err == nil {
			t.Errorf("ParseBytes(%q) = %d, want an error", in, got)
		}
	}
}

func TestParseRates(t *testing.T) {
	for in, want := range map[string]vmtest.BitRate{"10G": 1e10, "100M": 1e8, "8": 8, "0": 0} {
		if got, err := vmtest.ParseBitRate(in); err != nil || got != want {
			t.Errorf("ParseBitRate(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]vmtest.ByteRate{"85.7MB/s": 85_700_000, "1B/s": 1, "0": 0, "3GB/s": 3e9} {
		if got, err := vmtest.ParseByteRate(in); err != nil || got != want {
			t.Errorf("ParseByteRate(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"85.7M", "10", "MB/s", "1Mbit"} {
		if got, err := vmtest.ParseByteRate(in); err == nil {
			t.Errorf("ParseByteRate(%q) = %d, want an error: the unit is missing", in, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{"2us": 2 * time.Microsecond, "10ms": 10 * time.Millisecond, "0": 0} {
		if got, err := vmtest.ParseDuration(in); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"2", "-1ms", "1 ms", "fast"} {
		if got, err := vmtest.ParseDuration(in); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", in, got)
		}
	}
}

// What String writes, the parser of the same quantity reads back.
func TestUnitsRoundTrip(t *testing.T) {
	for _, b := range []vmtest.Bytes{0, 1, 1023, 1024, 65536, 1 << 20, 3 << 30, 1448} {
		if got, err := vmtest.ParseBytes(b.String()); err != nil || got != b {
			t.Errorf("Bytes %d: %q read back as %d, %v", int64(b), b.String(), got, err)
		}
	}
	for _, r := range []vmtest.BitRate{0, 1, 1e9, 2500e6, 123456} {
		if got, err := vmtest.ParseBitRate(r.String()); err != nil || got != r {
			t.Errorf("BitRate %d: %q read back as %d, %v", int64(r), r.String(), got, err)
		}
	}
	for _, r := range []vmtest.ByteRate{0, 1, 85_700_000, 1e9, 123456} {
		if got, err := vmtest.ParseByteRate(r.String()); err != nil || got != r {
			t.Errorf("ByteRate %d: %q read back as %d, %v", int64(r), r.String(), got, err)
		}
	}
}
