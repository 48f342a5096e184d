// The kernels for any processor that the compiler was told of.
#define NEXTQUERY_SET baseline
#include "kernels.h"
