// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/orthogonalise.hpp>

#include <causeway/cuda/device/product_queue.cuh>

#include "cuda/orthogonalise_case.hpp"

namespace causeway_test {

namespace cuda = causeway::cuda;

causeway::result<std::vector<float>> orthogonalise_on_device(const std::vector<float>& x, std::int64_t rows,
                                                             std::int64_t columns, bool in_bf16) {
  CAUSEWAY_ASSIGN(auto s, cuda::stream::create());
  CAUSEWAY_ASSIGN(auto products, cuda::matmul::create());
  CAUSEWAY_ASSIGN(auto buffer, cuda::device_buffer<float>::create(x.size()));
  cuda::arena memory{0};
  cuda::product_queue<> q{s, memory, products};
  CAUSEWAY_TRY(buffer.write(s, x));
  if (in_bf16) {
    CAUSEWAY_TRY(cuda::orthogonalise<causeway::bf16>(q, buffer.data(), rows, columns));
  } else {
    CAUSEWAY_TRY(cuda::orthogonalise<float>(q, buffer.data(), rows, columns));
  }
  std::vector<float> back(x.size());
  CAUSEWAY_TRY(buffer.read(s, back));
  CAUSEWAY_TRY(s.synchronize());
  return causeway::result<std::vector<float>>{std::move(back)};
}

}  // namespace causeway_test
