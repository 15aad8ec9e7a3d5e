#include "textflag.h"

// func escapedQuotes(first *byte, n int) (passed int)
// Requires AVX2.
TEXT ·escapedQuotes(SB), NOSPLIT, $0-24
	MOVQ first+0(FP), SI
	MOVQ n+8(FP), CX
	XORQ AX, AX
	MOVQ $0x22, DX // '"'
	VMOVQ DX, X0   // not MOVQ: what is not VEX-coded takes hundreds of cycles among what is
	VPBROADCASTB X0, Y0
	MOVQ $0x5c, DX // '\\'
	VMOVQ DX, X1
	VPBROADCASTB X1, Y1
	SUBQ $32, CX

step:
	CMPQ AX, CX
	JGT done
	VPCMPEQB (SI)(AX*1), Y0, Y2   // a quote
	VPCMPEQB -1(SI)(AX*1), Y1, Y3 // behind a backslash
	VPCMPEQB -2(SI)(AX*1), Y1, Y4 // behind two, or something and one
	VPANDN Y3, Y4, Y3             // behind one
	VPANDN Y2, Y3, Y2             // a quote that is not
	VPTEST Y2, Y2
	JNZ done
	ADDQ $32, AX
	JMP step

done:
	VZEROUPPER
	MOVQ AX, passed+16(FP)
	RET
