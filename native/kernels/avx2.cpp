// The kernels for x86 processors with AVX2 and FMA; compiled with -mavx2 -mfma.
#define NEXTQUERY_SET avx2
#include "kernels.h"
