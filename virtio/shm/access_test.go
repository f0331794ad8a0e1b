package shm_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/virtio/shm"
)

func TestViewSharesBytes(t *testing.T) {
	b := make([]byte, 64)
	v, ok := shm.View[uint16](b)
	if !ok || len(v) != 32 {
		t.Fatalf("%d elements, %v", len(v), ok)
	}
	shm.Store16(&v[1], 0x1234)
	if b[2] != 0x34 || b[3] != 0x12 {
		t.Errorf("bytes % x", b[:4])
	}
	b[4] = 7
	if shm.Load16(&v[2]) != 7 {
		t.Error("a store to the bytes does not show")
	}
	p, _ := shm.View[shm.Pair64](b)
	shm.StorePair64(&p[1], 0x0102, 0x03)
	if lo, hi := shm.LoadPair64(&p[1]); lo != 0x0102 || hi != 3 || b[16] != 2 || b[24] != 3 {
		t.Errorf("pair %#x, %#x, bytes % x", lo, hi, b[16:32])
	}
	q, _ := shm.View[shm.Pair32](b)
	shm.StorePair32(&q[4], 5, 6)
	if lo, hi := shm.LoadPair32(&q[4]); lo != 5 || hi != 6 || b[36] != 6 {
		t.Errorf("pair %d, %d", lo, hi)
	}
}

func TestViewAlignment(t *testing.T) {
	b := make([]byte, 64)
	for off := range 16 {
		_, ok16 := shm.View[uint16](b[off:])
		_, ok32 := shm.View[shm.Pair32](b[off:])
		_, ok64 := shm.View[shm.Pair64](b[off:])
		if ok16 != (off%2 == 0) || ok32 != (off%4 == 0) || ok64 != (off%8 == 0) {
			t.Errorf("offset %d: %v, %v, %v", off, ok16, ok32, ok64)
		}
	}
	if v, ok := shm.View[shm.Pair64](b[:15]); !ok || v != nil {
		t.Errorf("view of less than an element: %v, %v", v, ok)
	}
}

func Test64AtAnyAlignment(t *testing.T) {
	b := make([]byte, 24)
	for off := range 17 {
		clear(b)
		shm.Store64At(b, off, 0x0807060504030201)
		for i := range b {
			want := byte(0)
			if i >= off && i < off+8 {
				want = byte(i - off + 1)
			}
			if b[i] != want {
				t.Fatalf("offset %d: % x", off, b)
			}
		}
		if v := shm.Load64At(b, off); v != 0x0807060504030201 {
			t.Errorf("offset %d: %#x", off, v)
		}
	}
}
