// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/embedding.hpp>

#include <causeway/cuda/device/sort.cuh>

#include "cuda/device_functions.hpp"

namespace causeway_test {

namespace cuda = causeway::cuda;

causeway::result<std::vector<float>> embedding_gradient_on_device(const std::vector<std::int32_t>& tokens,
                                                                  const std::vector<float>& dx, std::int64_t columns,
                                                                  std::int64_t vocabulary) {
  CAUSEWAY_ASSIGN(auto s, cuda::stream::create());
  cuda::arena memory{0};
  cuda::sorting_queue q{s, memory};
  std::vector<float> table(static_cast<std::size_t>(vocabulary * columns));
  CAUSEWAY_ASSIGN(auto device_tokens, cuda::device_buffer<std::int32_t>::create(tokens.size()));
  CAUSEWAY_ASSIGN(auto device_dx, cuda::device_buffer<float>::create(dx.size()));
  CAUSEWAY_ASSIGN(auto device_table, cuda::device_buffer<float>::create(table.size()));
  CAUSEWAY_TRY(device_tokens.write(s, tokens));
  CAUSEWAY_TRY(device_dx.write(s, dx));
  CAUSEWAY_TRY(device_table.write(s, table));
  CAUSEWAY_TRY(cuda::embedding_backward(q, device_tokens.data(), device_dx.data(), device_table.data(), nullptr, 1,
                                        static_cast<std::int64_t>(tokens.size()), columns, vocabulary));
  CAUSEWAY_TRY(device_table.read(s, table));
  CAUSEWAY_TRY(s.synchronize());
  return table;
}

}  // namespace causeway_test
