#include "textflag.h"

// Both walk slice headers of 24 bytes, whose first word is the address. A
// prefetch never faults, so that neither length nor mapping matters.

// func prefetchRead(bufs *[]byte, n int)
TEXT ·prefetchRead(SB), NOSPLIT, $0-16
	MOVQ bufs+0(FP), AX
	MOVQ n+8(FP), CX

read:
	MOVQ       (AX), DX
	PREFETCHT0 (DX)
	PREFETCHT0 64(DX)
	ADDQ       $24, AX
	DECQ       CX
	JNZ        read
	RET

// The assembler does not know PREFETCHW (0F 0D /1). A CPU without it takes it
// for a NOP.

// func prefetchWrite(bufs *[]byte, n int)
TEXT ·prefetchWrite(SB), NOSPLIT, $0-16
	MOVQ bufs+0(FP), AX
	MOVQ n+8(FP), CX

write:
	MOVQ (AX), DX
	BYTE $0x0f; BYTE $0x0d; BYTE $0x0a              // PREFETCHW (DX)
	BYTE $0x0f; BYTE $0x0d; BYTE $0x4a; BYTE $0x40  // PREFETCHW 64(DX)
	ADDQ $24, AX
	DECQ CX
	JNZ  write
	RET
