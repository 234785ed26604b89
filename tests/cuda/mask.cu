// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/mask.cuh>

#include "cuda/device_functions.hpp"

namespace causeway_test {

namespace cuda = causeway::cuda;

causeway::result<std::vector<std::uint32_t>> list_permuted_on_device(std::size_t n,
                                                                     const causeway::compress::permuted_part& part) {
  CAUSEWAY_ASSIGN(auto s, cuda::stream::create());
  cuda::arena memory{0};
  std::vector<std::uint32_t> kept(part.end - part.begin);
  CAUSEWAY_ASSIGN(auto listed, cuda::device_buffer<std::uint32_t>::create(kept.size()));
  CAUSEWAY_TRY(cuda::list_permuted(s, memory, n, part, listed.data()));
  CAUSEWAY_TRY(listed.read(s, kept));
  CAUSEWAY_TRY(s.synchronize());
  return kept;
}

}  // namespace causeway_test
