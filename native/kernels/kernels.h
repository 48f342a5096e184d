// All kernels, written with GCC's vector types: included by one file per instruction set, which
// names its namespace NEXTQUERY_SET. Nothing here may use templates or inline functions of the
// standard library: the linker would be free to keep the copy that another processor cannot run.
#include "search.h"
#include "transformer.h"

namespace NEXTQUERY_SET {
namespace {

const Kernels KERNELS = {pack_matrix, pack_matrix_8, product,   advance, predict,    best,
                         score,       followers,     step,      ended,   run_symbols};

}  // namespace
const Kernels *kernels() { return &KERNELS; }
}  // namespace NEXTQUERY_SET
