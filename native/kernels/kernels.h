// All kernels, written with GCC's vector types: included by one file per instruction set, which
// names its namespace NEXTQUERY_SET. Nothing here may use templates or inline functions of the
// standard library: the linker would be free to keep the copy that another processor cannot run.
#include "recurrence.h"
#include "search.h"

namespace NEXTQUERY_SET {
namespace {

const Kernels KERNELS = {pack_matrix, pack_matrix_8, pack_matrix_16, SIXTEEN_BITS, product,
                         advance,     predict,       best,           score,        followers,
                         step,        ended,         pack_transposed, recur,        recur_back};

}  // namespace
const Kernels *kernels() { return &KERNELS; }
}  // namespace NEXTQUERY_SET
