// The kernels for x86 processors with AVX-512 and VNNI; hatch_build.py has the flags.
#define NEXTQUERY_SET avx512
#include "kernels.h"
